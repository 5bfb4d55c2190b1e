// The lock of redlock over ioredis, behind the command line of ../README.md.
"use strict";

const { readFileSync, writeFileSync } = require("node:fs");
const { setTimeout: pause } = require("node:timers/promises");
const { default: Redis } = require("ioredis");
const { default: Redlock } = require("redlock");

const LONG = 10_000;
const say = (line) => process.stdout.write(line + "\n");

const verbs = {
  async count(redlock, key, rounds, file) {
    for (let round = 0; round < Number(rounds); round++) {
      const lock = await redlock.acquire([key], LONG);
      const number = Number(readFileSync(file, "utf8"));
      await pause(1);
      writeFileSync(file, String(number + 1));
      await lock.release();
    }
    say(`done ${rounds}`);
  },

  async hold(redlock, key, ttl) {
    const lock = await redlock.acquire([key], Number(ttl));
    say("held");
    process.stdin.resume();
    await new Promise((ended) => process.stdin.on("end", ended));
    await lock.release();
  },

  async wait(redlock, key) {
    say("waiting");
    const lock = await redlock.acquire([key], LONG);
    say("got");
    await lock.release();
  },
};

async function main() {
  const [verb, url, ...rest] = process.argv.slice(2);
  const client = new Redis(url);
  // It tries for ever, with a short pause; the defaults give up after 2 s.
  const settings = { retryCount: -1, retryDelay: 5, retryJitter: 5 };
  await verbs[verb](new Redlock([client], settings), ...rest);
  client.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
