// The lock of redlock over ioredis, behind the command line of ../README.md.
"use strict";

const { readFileSync, writeFileSync } = require("node:fs");
const { setTimeout: pause } = require("node:timers/promises");
const { default: Redis } = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const LONG = 10_000;
const say = (line) => process.stdout.write(line + "\n");

// Tries for ever, with a short pause.
async function take(redlock, key, ttl) {
  for (;;) {
    try {
      return await redlock.acquire([key], ttl);
    } catch (error) {
      if (!(error instanceof ExecutionError)) throw error;
      await pause(5 + Math.random() * 5);
    }
  }
}

const verbs = {
  async count(redlock, key, rounds, file) {
    for (let round = 0; round < Number(rounds); round++) {
      const lock = await take(redlock, key, LONG);
      const number = Number(readFileSync(file, "utf8"));
      await pause(1);
      writeFileSync(file, String(number + 1));
      await lock.release();
    }
    say(`done ${rounds}`);
  },

  async hold(redlock, key, ttl) {
    const lock = await take(redlock, key, Number(ttl));
    say("held");
    process.stdin.resume();
    await new Promise((ended) => process.stdin.on("end", ended));
    await lock.release();
  },

  async wait(redlock, key) {
    say("waiting");
    const lock = await take(redlock, key, LONG);
    say("got");
    await lock.release();
  },
};

async function main() {
  const [verb, urls, ...rest] = process.argv.slice(2);
  const clients = urls.split(",").map((url) => new Redis(url));
  // Its own retries keep what an attempt got on a minority of the servers, and
  // two that do so block each other until it expires. An attempt that fails for
  // good gives it back.
  const settings = { retryCount: 0 };
  await verbs[verb](new Redlock(clients, settings), ...rest);
  clients.forEach((client) => client.disconnect());
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
