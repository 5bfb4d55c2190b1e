"""The lock of redis-py, behind the command line of ../README.md."""

import sys
import time

import redis


def lock(client, key, ttl_ms):
    # A short pause between tries; the default of 100 ms makes tests slow.
    return client.lock(key, timeout=ttl_ms / 1000, sleep=0.005)


def say(line):
    print(line, flush=True)


def count(client, key, rounds, file):
    for _ in range(int(rounds)):
        with lock(client, key, 10_000):
            with open(file) as numbers:
                number = int(numbers.read())
            time.sleep(0.001)
            with open(file, "w") as numbers:
                numbers.write(str(number + 1))
    say(f"done {rounds}")


def hold(client, key, ttl_ms):
    held = lock(client, key, int(ttl_ms))
    held.acquire()
    say("held")
    sys.stdin.read()
    held.release()


def wait(client, key):
    say("waiting")
    with lock(client, key, 10_000):
        say("got")


def main():
    verb, url, *rest = sys.argv[1:]
    client = redis.Redis.from_url(url)
    {"count": count, "hold": hold, "wait": wait}[verb](client, *rest)


main()
