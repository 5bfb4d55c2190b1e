// Curator's InterProcessMutex and InterProcessReadWriteLock, behind the command
// line of ../README.md.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

public final class Client {
    public static void main(String[] arguments) throws Exception {
        String[] verb = arguments[0].split("-");
        String key = "/" + arguments[2];
        int ttl = verb[0].equals("hold") ? Integer.parseInt(arguments[3]) : 10_000;
        if (verb[0].equals("contend")) {
            contend(arguments[1], key, Integer.parseInt(arguments[3]), Long.parseLong(arguments[4]));
            return;
        }
        CuratorFramework client = connect(arguments[1], ttl);
        InterProcessLock lock = lock(client, verb.length > 1 ? verb[1] : "", key);
        switch (verb[0]) {
            case "count" -> count(lock, Integer.parseInt(arguments[3]), Path.of(arguments[4]));
            case "hold" -> hold(lock);
            case "wait" -> waitFor(lock);
            case "cycle" -> cycle(lock, Long.parseLong(arguments[3]));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        client.close();
    }

    private static CuratorFramework connect(String url, int ttl) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            url.substring("zk://".length()), ttl, 5_000, new ExponentialBackoffRetry(50, 10));
        client.start();
        return client;
    }

    private static InterProcessLock lock(CuratorFramework client, String kind, String key) {
        return switch (kind) {
            case "read" -> new InterProcessReadWriteLock(client, key).readLock();
            case "write" -> new InterProcessReadWriteLock(client, key).writeLock();
            default -> new InterProcessMutex(client, key);
        };
    }

    private static void count(InterProcessLock lock, int rounds, Path file) throws Exception {
        for (int round = 0; round < rounds; round++) {
            lock.acquire();
            int number = Integer.parseInt(Files.readString(file).trim());
            Thread.sleep(1);
            Files.writeString(file, Integer.toString(number + 1));
            lock.release();
        }
        System.out.println("done " + rounds);
    }

    private static void hold(InterProcessLock lock) throws Exception {
        lock.acquire();
        System.out.println("held");
        System.in.readAllBytes();
        lock.release();
    }

    private static void waitFor(InterProcessLock lock) throws Exception {
        System.out.println("waiting");
        lock.acquire();
        System.out.println("got");
        lock.release();
    }

    private static void cycle(InterProcessLock lock, long millis) throws Exception {
        // The compiler needs a while.
        long warm = System.nanoTime() + 1_000_000_000L;
        while (System.nanoTime() < warm) {
            lock.acquire();
            lock.release();
        }
        List<Long> samples = new ArrayList<>();
        long end = System.nanoTime() + millis * 1_000_000L;
        while (System.nanoTime() < end) {
            long began = System.nanoTime();
            lock.acquire();
            lock.release();
            samples.add(System.nanoTime() - began);
        }
        long[] sorted = samples.stream().mapToLong(Long::longValue).sorted().toArray();
        System.out.println("p50 " + sorted[sorted.length / 2] / 1000);
    }

    private static void contend(String url, String key, int sessions, long millis)
            throws Exception {
        AtomicLong start = new AtomicLong(Long.MAX_VALUE);
        long[] grants = new long[sessions];
        Thread[] threads = new Thread[sessions];
        for (int session = 0; session < sessions; session++) {
            int number = session;
            CuratorFramework client = connect(url, 10_000);
            client.blockUntilConnected();
            threads[session] = new Thread(() -> {
                InterProcessMutex lock = new InterProcessMutex(client, key);
                try {
                    while (System.nanoTime() < start.get()) {
                        Thread.onSpinWait();
                    }
                    long end = start.get() + millis * 1_000_000L;
                    while (System.nanoTime() < end) {
                        lock.acquire();
                        grants[number]++;
                        lock.release();
                    }
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
        }
        start.set(System.nanoTime());
        Arrays.stream(threads).forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("rate " + Arrays.stream(grants).sum() * 1000 / millis);
        System.exit(0);
    }
}
