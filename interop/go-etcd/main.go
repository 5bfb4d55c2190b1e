// The mutex of etcd's own client, behind the command line of ../README.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const long = 10

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("see ../README.md for the arguments"))
	}
	verb, key, rest := os.Args[1], os.Args[3], os.Args[4:]
	places := strings.Split(strings.TrimPrefix(os.Args[2], "etcd://"), ",")
	client, err := clientv3.New(clientv3.Config{Endpoints: places, DialTimeout: 10 * time.Second})
	fail(err)
	switch verb {
	case "count":
		count(mutex(client, key, long), number(rest[0]), rest[1])
	case "hold":
		hold(mutex(client, key, number(rest[0])/1000))
	case "slices":
		slices(client, key)
	case "wait":
		wait(mutex(client, key, long))
	default:
		fail(fmt.Errorf("unknown: %s", verb))
	}
}

func mutex(client *clientv3.Client, key string, seconds int) *concurrency.Mutex {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(seconds))
	fail(err)
	return concurrency.NewMutex(session, key)
}

func count(lock *concurrency.Mutex, rounds int, file string) {
	for round := 0; round < rounds; round++ {
		fail(lock.Lock(context.Background()))
		text, err := os.ReadFile(file)
		fail(err)
		time.Sleep(time.Millisecond)
		fail(os.WriteFile(file, []byte(strconv.Itoa(number(string(text))+1)), 0o644))
		fail(lock.Unlock(context.Background()))
	}
	fmt.Println("done", rounds)
}

func hold(lock *concurrency.Mutex) {
	fail(lock.Lock(context.Background()))
	fmt.Println("held")
	_, err := io.Copy(io.Discard, os.Stdin)
	fail(err)
	fail(lock.Unlock(context.Background()))
}

func wait(lock *concurrency.Mutex) {
	fmt.Println("waiting")
	fail(lock.Lock(context.Background()))
	fmt.Println("got")
	fail(lock.Unlock(context.Background()))
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
