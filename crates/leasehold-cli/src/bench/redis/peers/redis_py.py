"""One slice of redis-py locks per line: "one-name tasks seconds"."""
import json, os, sys, threading, time
import redis

url = os.environ["LEASEHOLD_BENCH_URL"]
server = redis.Redis.from_url(url)
server.ping()
print("ready", flush=True)
for line in sys.stdin:
    one_name, tasks, seconds = line.split()
    one_name, tasks, seconds = one_name == "1", int(tasks), float(seconds)
    samples, start = [], time.monotonic()

    def work(task):
        name = "leasehold-bench/redis-py" + ("" if one_name else "/%d" % task)
        lock = server.lock(name, timeout=10)
        while True:
            began = time.monotonic()
            lock.acquire()
            lock.release()
            ended = time.monotonic()
            samples.append((ended - began) * 1e6)
            if ended - start >= seconds:
                break

    workers = [threading.Thread(target=work, args=(task,)) for task in range(tasks)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    samples.sort()
    p50 = samples[len(samples) // 2] if samples else 0
    rate = (len(samples) - tasks) / seconds
    print(json.dumps({"p50": p50, "rate": rate}), flush=True)
