package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flockd/backends"
)

// answerError is an error as a server sends it.
type answerError string

func (e answerError) Error() string { return string(e) }
func (answerError) RedisError()     {}

var _ redis.Error = answerError("")

// What can't be brought about with one server of this version.
func TestClassify(t *testing.T) {
	t.Parallel()
	s := &server{settings: &settings{name: "redis://h:6379"}}
	for text, want := range map[string]struct {
		refused bool
		says    string
	}{
		"MOVED 3999 127.0.0.1:6381": {true, "node of a Redis Cluster"},
		"READONLY You can't write against a read only replica. script: 0a1b, on @user_script:12.":              {true, "is a replica"},
		"ERR Error running script (call to f_0a1b): @user_script:9: @user_script: 9: -READONLY You can't ":     {true, "is a replica"},
		"ERR Error running script (call to f_0a1b): @user_script:9: @user_script: 9: -OOM command not allowed": {false, "out of memory"},
		"ERR Error running script (call to f_0a1b): @user_script:9: -MISCONF Redis is configured to save":      {false, "can't save"},
		"DENIED Redis is running in protected mode because":                                                    {true, "protected mode"},
		"BUSY Redis is busy running a script. You can only":                                                    {false, "busy with a script"},
		"ERR max number of clients reached":                                                                    {false, "all the clients"},
		"ERR unknown command 'eval'":                                                                           {true, "doesn't know a command"},
		"ERR AUTH <password> called without any password configured for the default user. Are you":             {true, "has no password"},
		"ERR something new": {false, "ERR something new"},
		"ERR Error running script (call to f_0a1b): @user_script:17: flockd-newer 3": {true, "record version 3"},
		"ERR user_script:17: flockd-clock script: 0a1b, on @user_script:17.":         {true, "has reached 2^53"},
	} {
		err := s.classify(about("k", answerError(text)))
		if errors.Is(err, backends.ErrRefused) != want.refused || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v, refused %v", text, err, errors.Is(err, backends.ErrRefused))
		}
	}
	s.served.Store(true) // it was a primary
	for _, err := range []error{s.classify(answerError("READONLY You can't")), (greeting{s}).welcome(map[string]any{"role": "replica"})} {
		wantTrouble(t, err, "is a replica now")
	}
}
