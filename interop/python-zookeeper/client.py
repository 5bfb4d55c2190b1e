"""kazoo's Lock, ReadLock and WriteLock, behind the command line of ../README.md."""

import logging
import statistics
import sys
import threading
import time

from kazoo.client import KazooClient

logging.basicConfig(level=logging.CRITICAL)


def connect(url, ttl_ms=10_000):
    client = KazooClient(hosts=url.removeprefix("zk://"), timeout=ttl_ms / 1000)
    client.start()
    return client


def lock(client, kind, key):
    make = {"": client.Lock, "read": client.ReadLock, "write": client.WriteLock}
    return make[kind](f"/{key}")


def say(line):
    print(line, flush=True)


def count(url, kind, key, rounds, file):
    shared = lock(connect(url), kind, key)
    for _ in range(int(rounds)):
        with shared:
            with open(file) as numbers:
                number = int(numbers.read())
            time.sleep(0.001)
            with open(file, "w") as numbers:
                numbers.write(str(number + 1))
    say(f"done {rounds}")


def hold(url, kind, key, ttl_ms):
    client = connect(url, int(ttl_ms))
    held = lock(client, kind, key)
    held.acquire()
    say("held")
    sys.stdin.read()
    held.release()
    client.stop()


def wait(url, kind, key):
    shared = lock(connect(url), kind, key)
    say("waiting")
    with shared:
        say("got")


def cycle(url, kind, key, millis):
    shared = lock(connect(url), kind, key)
    samples = []
    end = time.monotonic() + int(millis) / 1000
    while time.monotonic() < end:
        began = time.monotonic()
        with shared:
            pass
        samples.append(time.monotonic() - began)
    say(f"p50 {round(statistics.median(samples) * 1e6)}")


def contend(url, kind, key, sessions, millis):
    locks = [lock(connect(url), kind, key) for _ in range(int(sessions))]
    grants = [0] * len(locks)
    end = time.monotonic() + int(millis) / 1000

    def work(number):
        while time.monotonic() < end:
            with locks[number]:
                grants[number] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(locks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(f"rate {sum(grants) * 1000 // int(millis)}")


def main():
    verb, url, *rest = sys.argv[1:]
    verb, _, kind = verb.partition("-")
    verbs = {"count": count, "hold": hold, "wait": wait, "cycle": cycle, "contend": contend}
    verbs[verb](url, kind, *rest)


main()
