// The RLock of Redisson, behind the command line of ../README.md.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Client {
    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer()
            .setAddress(arguments[1])
            .setConnectionMinimumIdleSize(1)
            .setConnectionPoolSize(2)
            .setSubscriptionConnectionMinimumIdleSize(1)
            .setSubscriptionConnectionPoolSize(2);
        RedissonClient client = Redisson.create(config);
        RLock lock = client.getLock(arguments[2]);
        switch (arguments[0]) {
            case "count" -> count(lock, Integer.parseInt(arguments[3]), Path.of(arguments[4]));
            case "hold" -> hold(lock, Long.parseLong(arguments[3]));
            case "wait" -> waitFor(lock);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        client.shutdown();
    }

    private static void count(RLock lock, int rounds, Path file) throws Exception {
        for (int round = 0; round < rounds; round++) {
            lock.lock(10, TimeUnit.SECONDS);
            int number = Integer.parseInt(Files.readString(file).trim());
            Thread.sleep(1);
            Files.writeString(file, Integer.toString(number + 1));
            lock.unlock();
        }
        System.out.println("done " + rounds);
    }

    private static void hold(RLock lock, long ttlMillis) throws Exception {
        // With a lease time it is not renewed.
        lock.lock(ttlMillis, TimeUnit.MILLISECONDS);
        System.out.println("held");
        System.in.readAllBytes();
        lock.unlock();
    }

    private static void waitFor(RLock lock) {
        System.out.println("waiting");
        lock.lock(10, TimeUnit.SECONDS);
        System.out.println("got");
        lock.unlock();
    }
}
