package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flockd/backends"
)

// connections is how many may be in use at once by one client. A run uses one, and a
// few more where some don't answer; the rest is room, and costs nothing until it is used.
const connections = 100

const (
	readBuffer  = 4096  // holds a record with room to spare; more is read in several goes
	writeBuffer = 20480 // holds a request, of which the script is some 15 KB, so that it is sent at once
)

// connect makes a client, which connects with its first request. It asks for the old
// protocol, RESP2, which every proxy knows: there is nothing that the new one would
// give us. It repeats nothing by itself: a release that was repeated unseen would be
// answered with "lost".
func connect(s *server) *redis.Client {
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
		ReadBufferSize:   readBuffer,
		WriteBufferSize:  writeBuffer,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	client.AddHook(greeting{s})
	return client
}

// greeting reads the answer to HELLO, the first request of each connection, which
// tells without a further request whether this is a primary. What a proxy or an
// older server refuses to tell is found out by the first write. To such a one go-redis
// sends AUTH, if there is a password.
type greeting struct{ to *server }

func (greeting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (greeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g greeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		switch cmd.Name() {
		case "hello":
			if err != nil {
				return g.turnedAway(err)
			}
			if said, ok := cmd.(*redis.MapStringInterfaceCmd); ok {
				return g.welcome(said.Val())
			}
		case "auth":
			if err != nil {
				return setupError{g.to.shutOut(err)}
			}
		}
		return err
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
	switch code, _, _ := strings.Cut(text, " "); {
	case text == "", code == "NOAUTH", code == "WRONGPASS", code == "DENIED", strings.HasPrefix(text, tooMany):
		return setupError{g.to.shutOut(err)}
	}
	return err // it knows no HELLO; go-redis drops the text
}

// tooMany is what Redis says to a client that is one too many.
const tooMany = "ERR max number of clients"

// shutOut judges an error of HELLO or AUTH. Some servers repeat in it what they were
// sent, and that was the password: so nothing of it is ever shown.
func (s *server) shutOut(err error) error {
	text := said(err)
	code, _, _ := strings.Cut(text, " ")
	switch {
	case text == "":
		return s.classify(err)
	case code == "NOAUTH", code == "WRONGPASS", code == "DENIED", passing(code) != "",
		strings.HasPrefix(text, tooMany), strings.HasPrefix(text, "ERR AUTH <password> called without any password configured"):
		return s.classifyAnswer(code, text) // in words of ours
	case strings.HasPrefix(strings.ToLower(text), "err unknown command"):
		return backends.Refuse("leave the password out if the server wants none", "%s knows no AUTH", s.name)
	}
	return fmt.Errorf("%s refuses HELLO and AUTH", s.name)
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

// replica is final for a server that has never been a primary to us.
func (s *server) replica() error {
	if s.served.Load() {
		return fmt.Errorf("%s is a replica now", s.name)
	}
	return backends.Refuse("name its primary", "%s is a replica", s.name)
}
