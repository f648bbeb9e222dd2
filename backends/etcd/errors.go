package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"flockd/backends"
)

// memberError is an error of a request to a member, or on the way to it.
type memberError struct {
	endpoint string
	err      error
}

func (e *memberError) Error() string { return e.endpoint + ": " + e.err.Error() }

func (e *memberError) Unwrap() error { return e.err }

// isMembers reports whether a member was asked, and err is what came of that.
func isMembers(err error) bool {
	var member *memberError
	return errors.As(err, &member)
}

// named says whose error it is, where it is a member's and not an answer of ours.
func named(l *link, err error) error {
	for _, answer := range []error{
		backends.ErrHeld, backends.ErrDone, backends.ErrLost, backends.ErrNotFound, backends.ErrStale, backends.ErrRefused,
		context.Canceled,
	} {
		if errors.Is(err, answer) {
			return err
		}
	}
	return &memberError{l.endpoint, err}
}

// unreachable is why there is no connection to any member. It is refused only
// where every member would be.
func unreachable(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	var texts []string
	var refused *backends.RefusedError
	all := true
	for _, err := range errs {
		all = errors.As(err, &refused) && all
		if !isContext(err) {
			texts = append(texts, err.Error())
		}
	}
	err := errors.New(strings.Join(texts, "; "))
	switch last := errs[len(errs)-1]; {
	case all:
		return &backends.RefusedError{Err: err, Hint: refused.Hint}
	case isContext(last) && len(texts) == 0:
		return last
	case isContext(last):
		return fmt.Errorf("%w; %w", err, last)
	}
	return err
}

func isContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// failed names the request that err is about. Nil stays nil.
func (s *Store) failed(op, key string, err error) error {
	if err == nil || errors.Is(err, backends.ErrHeld) || errors.Is(err, backends.ErrDone) || errors.Is(err, backends.ErrStale) {
		return err
	}
	return fmt.Errorf("%s %q: %w", op, key, s.classify(err))
}

// classify turns etcd's errors into ours. A full database and a cluster without a
// quorum may recover, so trying again is of use; they are ordinary errors.
func (s *Store) classify(err error) error {
	where := "etcd"
	var member *memberError
	if errors.As(err, &member) {
		where += " at " + member.endpoint
	}
	var e rpctypes.EtcdError
	isEtcd := errors.As(err, &e)
	switch {
	case errors.Is(err, backends.ErrRefused):
		return err
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return backends.Refuse("", "%s: wrong user or password (user %q)", where, s.cluster.user)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return backends.Refuse("name them in the URL: etcd://USER@HOST/?password-file=FILE", "%s asks for a user and a password", where)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return backends.Refuse(fmt.Sprintf("etcdctl role grant-permission ROLE readwrite --prefix=true %s/", s.prefix),
			"%s: %s lacks the right to read and write below %s/", where, s.who(), s.prefix)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%s: its database is full (alarm NOSPACE); etcdctl compact and defrag make room, then etcdctl alarm disarm", where)
	case errors.Is(err, context.DeadlineExceeded) && member != nil:
		return fmt.Errorf("%s: no answer in time, which a cluster without a quorum doesn't give either: %w", where, context.DeadlineExceeded)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no connection in time: %w", strings.Join(s.cluster.endpoints, ", "), err)
	case isEtcd && isUnavailable(err):
		return fmt.Errorf("%s has no quorum or no leader: %s", where, trim(e.Error()))
	case isEtcd:
		return fmt.Errorf("%s: %s", where, trim(e.Error()))
	}
	if st, ok := status.FromError(err); ok && member != nil {
		return fmt.Errorf("%s: the connection failed: %s", where, backends.Quote(plainText(st.Message()), s.cluster.password))
	}
	return err
}

// who is the user, as far as this client knows.
func (s *Store) who() string {
	if s.cluster.user == "" {
		return "the user of the client certificate"
	}
	return fmt.Sprintf("user %q", s.cluster.user)
}

func trim(text string) string { return strings.TrimPrefix(text, "etcdserver: ") }

// plainText is the end of gRPC's chain of causes, which is what happened.
func plainText(text string) string {
	const cause = "desc = "
	if i := strings.LastIndex(text, cause); i >= 0 {
		text = text[i+len(cause):]
	}
	if _, after, ok := strings.Cut(text, "transport: "); ok {
		text = after
	}
	return strings.Trim(text, `"`)
}
