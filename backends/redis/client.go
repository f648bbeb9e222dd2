package redis

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flockd/backends"
)

// connections is how many may be in use at once by one client. A run uses one, and a
// few more where some don't answer.
const connections = 100

// buffer holds a record with room to spare; more is read in several goes.
const buffer = 4096

// connect makes a client, which connects with its first request. It asks for the old
// protocol, RESP2, which every proxy knows: there is nothing that the new one would
// give us. It repeats nothing by itself: a release that was repeated unseen would be
// answered with "lost".
func connect(s *settings) *redis.Client {
	logging.Disable() // flockd alone writes to stderr
	client := redis.NewClient(&redis.Options{
		Addr:     s.address,
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return newLink(s), nil },
		Protocol: 2,
		Username: s.user, Password: s.password, DB: s.db,

		ContextTimeoutEnabled: true,
		ReadTimeout:           -1, // the context's deadline is the only one, and a clock that is set doesn't move it
		WriteTimeout:          -1,
		MaxRetries:            -1,
		DialerRetries:         1,

		PoolSize:         connections,
		ConnMaxIdleTime:  -1, // by the wall clock; one that the server has closed is seen to be
		PipelinePoolSize: -1, // pipelines share the connection that is there
		ReadBufferSize:   buffer,
		WriteBufferSize:  buffer,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	client.AddHook(greeting{s})
	return client
}

// greeting reads the answer to HELLO, the first request of each connection, which
// tells without a further request whether this is a primary. What a proxy or an
// older server refuses to tell is found out by the first write.
type greeting struct{ to *settings }

func (greeting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (greeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g greeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() != "hello" {
			return err
		}
		if said, ok := cmd.(*redis.MapStringInterfaceCmd); ok && err == nil {
			return g.welcome(said.Val())
		}
		return g.turnedAway(err)
	}
}

// welcome refuses a server that isn't a primary.
func (g greeting) welcome(said map[string]any) error {
	switch {
	case said["mode"] == "sentinel":
		return setupError{backends.Refuse("name the primary", "%s is a Sentinel, which keeps no data", g.to.name)}
	case said["role"] == "replica", said["role"] == "slave":
		return setupError{g.to.replica()}
	}
	return nil
}

// turnedAway recognizes errors that are final. What go-redis would try next would be
// refused in other words, for some have the server close the connection, and without
// a password it takes no request as long as ours.
func (g greeting) turnedAway(err error) error {
	text := said(err)
	switch code := codeOf(text); {
	case code == "NOAUTH", code == "WRONGPASS", code == "DENIED", strings.Contains(text, "max number of clients"):
		return setupError{g.to.classify(err)}
	}
	return err // it knows no HELLO
}

// setupError carries an error through go-redis, which takes one layer off what comes
// from the setting up of a connection.
type setupError struct{ error }

func (e setupError) Unwrap() error { return e.error }

// said is the text of an error that came from the server; empty: it didn't.
func said(err error) string {
	var e redis.Error
	if errors.As(err, &e) && !errors.Is(err, redis.Nil) {
		return e.Error()
	}
	return ""
}

func (s *settings) replica() error {
	return backends.Refuse("name its primary", "%s is a replica", s.name)
}
