// The lock of redsync over go-redis, behind the command line of ../README.md.
package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	driver "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const long = 10 * time.Second

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("see ../README.md for the arguments"))
	}
	verb, key, rest := os.Args[1], os.Args[3], os.Args[4:]
	var pools []driver.Pool
	for _, url := range strings.Split(os.Args[2], ",") {
		options, err := redis.ParseURL(url)
		fail(err)
		pools = append(pools, goredis.NewPool(redis.NewClient(options)))
	}
	locks := redsync.New(pools...)
	switch verb {
	case "count":
		count(mutex(locks, key, long), number(rest[0]), rest[1])
	case "hold":
		hold(mutex(locks, key, time.Duration(number(rest[0]))*time.Millisecond))
	case "wait":
		wait(mutex(locks, key, long))
	default:
		fail(fmt.Errorf("unknown: %s", verb))
	}
}

func mutex(locks *redsync.Redsync, key string, ttl time.Duration) *redsync.Mutex {
	// It tries for ever, with a short pause; the defaults give up after 32 tries.
	return locks.NewMutex(key,
		redsync.WithExpiry(ttl),
		redsync.WithTries(math.MaxInt32),
		redsync.WithRetryDelay(5*time.Millisecond))
}

func count(lock *redsync.Mutex, rounds int, file string) {
	for round := 0; round < rounds; round++ {
		fail(lock.Lock())
		text, err := os.ReadFile(file)
		fail(err)
		time.Sleep(time.Millisecond)
		fail(os.WriteFile(file, []byte(strconv.Itoa(number(string(text))+1)), 0o644))
		release(lock)
	}
	fmt.Println("done", rounds)
}

func hold(lock *redsync.Mutex) {
	fail(lock.Lock())
	fmt.Println("held")
	_, err := io.Copy(io.Discard, os.Stdin)
	fail(err)
	release(lock)
}

func wait(lock *redsync.Mutex) {
	fmt.Println("waiting")
	fail(lock.Lock())
	fmt.Println("got")
	release(lock)
}

func release(lock *redsync.Mutex) {
	_, err := lock.Unlock()
	fail(err)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	fail(err)
	return value
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
