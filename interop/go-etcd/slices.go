package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// slices measures: each line of the input is `NAMES TASKS SECONDS`, where NAMES
// is 1 if all tasks lock one name and 0 if each has its own. Each task has a
// session; sessions are kept from line to line.
func slices(client *clientv3.Client, key string) {
	var sessions []*concurrency.Session
	fmt.Println("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var names, tasks int
		var seconds float64
		_, err := fmt.Sscan(input.Text(), &names, &tasks, &seconds)
		fail(err)
		for len(sessions) < tasks {
			session, err := concurrency.NewSession(client, concurrency.WithTTL(long))
			fail(err)
			sessions = append(sessions, session)
		}
		slice(sessions[:tasks], key, names == 1, time.Duration(seconds*float64(time.Second)))
	}
}

func slice(sessions []*concurrency.Session, key string, isOne bool, length time.Duration) {
	var all []float64
	var guard sync.Mutex
	var tasks sync.WaitGroup
	start, inTime := time.Now(), 0
	for number, session := range sessions {
		name := key
		if !isOne {
			name = fmt.Sprintf("%s/%d", key, number)
		}
		lock := concurrency.NewMutex(session, name)
		tasks.Add(1)
		go func() {
			defer tasks.Done()
			for {
				began := time.Now()
				fail(lock.Lock(context.Background()))
				fail(lock.Unlock(context.Background()))
				guard.Lock()
				all = append(all, float64(time.Since(began).Nanoseconds())/1e3)
				isOver := time.Since(start) >= length
				if !isOver {
					inTime++
				}
				guard.Unlock()
				if isOver {
					return
				}
			}
		}()
	}
	tasks.Wait()
	sort.Float64s(all)
	fmt.Printf("{\"p50\":%f,\"rate\":%f}\n", all[len(all)/2], float64(inTime)/length.Seconds())
}
