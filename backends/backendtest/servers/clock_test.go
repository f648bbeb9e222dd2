package servers_test

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// TestClockOfRedis: a step moves what Redis takes for the time, at once and both ways,
// and expires what the new time is past.
func TestClockOfRedis(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	r := clock.Redis(t)
	wantsTime(t, r, 0)
	if got, err := redisSays(r.Addr, "SET key value EX 60", enough); got != "+OK\r\n" {
		t.Fatalf("SET: %q, %v", got, err)
	}
	clock.Step(-time.Hour)
	wantsTime(t, r, -time.Hour)
	if got, err := redisSays(r.Addr, "TTL key", enough); err != nil || got < ":3600" || len(got) < len(":3600") {
		t.Errorf("TTL an hour before: %q, %v", got, err)
	}
	clock.Step(time.Hour + 2*time.Minute)
	wantsTime(t, r, 2*time.Minute)
	if got, err := redisSays(r.Addr, "EXISTS key", enough); got != ":0\r\n" {
		t.Errorf("EXISTS two minutes later: %q, %v", got, err)
	}
}

// readings prints what each call of the C library says, in seconds.
const readings = `
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
int main(void)
{
	struct timespec real, coarse, monotonic;
	struct timeval day;
	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_REALTIME_COARSE, &coarse);
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	gettimeofday(&day, NULL);
	return printf("%ld %ld %ld %ld %ld", (long)real.tv_sec, (long)coarse.tv_sec, (long)day.tv_sec,
		(long)time(NULL), (long)monotonic.tv_sec) < 0;
}`

// TestClockOfAnyProgram: every wall clock is stepped, and the monotonic one is not.
func TestClockOfAnyProgram(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	clock.Step(-24 * time.Hour)
	program := filepath.Join(t.TempDir(), "readings")
	cc := exec.Command("cc", "-o", program, "-x", "c", "-")
	cc.Stdin = strings.NewReader(readings)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = clock.Env
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		t.Fatal(err)
	}
	stepped := time.Now().Unix() - 24*60*60
	want := []int64{stepped, stepped, stepped, stepped, mono.Sec}
	for i, field := range strings.Fields(string(out)) {
		got, err := strconv.ParseInt(field, 10, 64)
		if err != nil || got < want[i]-60 || got > want[i] {
			t.Errorf("reading %d is %d, %v, want %d, or a little less", i, got, err, want[i])
		}
	}
	if n := len(strings.Fields(string(out))); n != len(want) {
		t.Errorf("%d readings, want %d", n, len(want))
	}
}

// wantsTime says that the server's clock is off by step.
func wantsTime(t *testing.T, r *servers.Process, step time.Duration) {
	t.Helper()
	got, err := redisTime(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Until(got) - step; off.Abs() > time.Minute/2 {
		t.Errorf("the server's clock is off by %v, want %v", off+step, step)
	}
}

// redisTime is the server's TIME: its seconds.
func redisTime(addr string) (time.Time, error) {
	conn, err := net.DialTimeout("tcp", addr, enough)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(enough))
	fmt.Fprint(conn, "TIME\r\n")
	in := bufio.NewReader(conn) // *2, $10, seconds, ...
	var line string
	for range 3 {
		if line, err = in.ReadString('\n'); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Unix(seconds, 0), err
}
