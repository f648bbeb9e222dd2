package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// admin works on the users of a server.
type admin struct {
	t testing.TB
	s *Store
}

func (a admin) do(op func(context.Context, pb.AuthClient) error) {
	a.t.Helper()
	err := a.s.call(a.t.Context(), func(ctx context.Context, l *link) error { return op(ctx, pb.NewAuthClient(l.conn)) })
	if err != nil {
		a.t.Fatal(err)
	}
}

// add adds a user with a role of the same name.
func (a admin) add(user, password string) {
	a.t.Helper()
	a.do(func(ctx context.Context, c pb.AuthClient) error {
		_, err := c.UserAdd(ctx, &pb.AuthUserAddRequest{Name: user, Password: password, Options: &authpb.UserAddOptions{}})
		if err == nil {
			_, err = c.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: user})
		}
		if err == nil {
			_, err = c.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: user, Role: user})
		}
		return err
	})
}

// allow gives a role all rights on what begins with prefix, as the hint says.
func (a admin) allow(role, prefix string) {
	a.t.Helper()
	a.do(func(ctx context.Context, c pb.AuthClient) error {
		perm := &authpb.Permission{PermType: authpb.READWRITE, Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix))}
		_, err := c.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: perm})
		return err
	})
}

func (a admin) setPassword(user, password string) {
	a.t.Helper()
	a.do(func(ctx context.Context, c pb.AuthClient) error {
		_, err := c.UserChangePassword(ctx, &pb.AuthUserChangePasswordRequest{Name: user, Password: password})
		return err
	})
}

// guarded is a server that wants users: alice may use the prefix flockd, bob nothing.
func guarded(t testing.TB, version servers.Version, args ...string) (addr string, a admin) {
	t.Helper()
	p := servers.Etcd(t, version, append([]string{"--bcrypt-cost", "4"}, args...)...)
	a = admin{t, open(t, "etcd://"+p.Addr)}
	a.add("root", "rootpw")
	a.add("alice", "alicepw")
	a.add("bob", "bobpw")
	a.allow("alice", "flockd/")
	a.do(func(ctx context.Context, c pb.AuthClient) error {
		_, err := c.AuthEnable(ctx, &pb.AuthEnableRequest{})
		return err
	})
	a.s = open(t, "etcd://root:rootpw@"+p.Addr)
	return p.Addr, a
}

// isRefused checks that err is final, and says so plainly.
func isRefused(t testing.TB, err error, text, hint string) {
	t.Helper()
	var refused *backends.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), text) || !strings.Contains(refused.Hint, hint) {
		t.Errorf("%v, want it refused with %q and a hint at %q", err, text, hint)
	} else {
		isPlain(t, err)
	}
}

// isPlain checks that err has neither gRPC's words nor a password.
func isPlain(t testing.TB, err error) {
	t.Helper()
	for _, word := range []string{"rpc error", "desc =", "transport", "etcdserver", "pw"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("%q has %q in it", err, word)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	for _, version := range []servers.Version{servers.Current, servers.Debian} {
		t.Run(version.String(), func(t *testing.T) {
			addr, _ := guarded(t, version)
			req := request(t)
			for _, c := range []struct{ user, text, hint string }{
				{"", "asks for a user and a password", "etcd://USER@HOST"},
				{"alice:wrongpw@", `wrong user or password (user "alice")`, ""},
				{"carol:carolpw@", `wrong user or password (user "carol")`, ""},
				{"bob:bobpw@", `user "bob" lacks the right to read and write below flockd/`, "etcdctl role grant-permission ROLE readwrite --prefix=true flockd/"},
			} {
				_, err := open(t, "etcd://"+c.user+addr).Acquire(t.Context(), req)
				isRefused(t, err, c.text, c.hint)
				isRefused(t, open(t, "etcd://"+c.user+addr).Admit(t.Context(), "a", 7), c.text, c.hint)
			}
			_, err := open(t, "etcd://alice:alicepw@"+addr+"/other").Acquire(t.Context(), req)
			isRefused(t, err, "below other/", "--prefix=true other/")
			usesAll(t, open(t, "etcd://alice:alicepw@"+addr))
		})
	}
}

// usesAll does all that flockd does.
func usesAll(t testing.TB, s *Store) {
	t.Helper()
	req := request(t)
	req.MinHold = time.Minute
	lease := acquire(t, s, req)
	next := another(req)
	answer := held(t, s, next)
	held(t, s, next)
	lease.TTL *= 2
	renew(t, s, lease)
	ask(t, s, lease, notice)
	if err := s.Watch(within(t), lease); err != nil {
		t.Errorf("Watch = %v", err)
	}
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Errorf("List = %v", err)
		}
	}
	release(t, s, lease)
	wait(t, s, answer)
	ask(t, s, lease, remove)
	ask(t, s, acquire(t, s, next), remove)
	if got := line(t, s, req.Key); len(got) > 0 {
		t.Errorf("%v is in line", got)
	}
	backendtest.Admit(t, s, req.Key, 7)
	backendtest.ResetTo(t, s, req.Key, 5)
	backendtest.WantHighest(t, s, req.Key, 5)
}

// A user is no harm where etcd asks for none.
func TestUserWithoutNeed(t *testing.T) {
	t.Parallel()
	p, _ := server(t)
	s := open(t, "etcd://alice:alicepw@"+p.Addr)
	n := counted(s)
	lease := acquire(t, s, request(t))
	n.Store(0)
	if renew(t, s, lease); n.Load() != 2 {
		t.Errorf("%d requests for a renewal, want 2", n.Load())
	}
}

// Tokens end by themselves; the lease must not.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	addr, a := guarded(t, servers.Current, "--auth-token-ttl", "1")
	s := open(t, "etcd://alice:alicepw@"+addr)
	lease := acquire(t, s, request(t))
	answer := held(t, s, another(request(t)))
	expired(t, s)
	renew(t, s, lease)
	release(t, a.s, lease)
	expired(t, s)
	wait(t, s, answer)
}

// expired returns when the server doesn't know the store's token any more.
func expired(t testing.TB, s *Store) {
	t.Helper()
	l, err := s.cluster.connected(t.Context())
	for end := time.Now().Add(30 * time.Second); err == nil; time.Sleep(1500 * time.Millisecond) { // a request prolongs it
		if _, err = l.txn(within(t), nil, []clientv3.Op{clientv3.OpGet("flockd/x")}, nil); time.Now().After(end) {
			t.Fatal("the token still works")
		}
	}
	if !tokenExpired(err) {
		t.Fatal(err)
	}
}

// A new password ends the token at once.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	addr, a := guarded(t, servers.Current)
	s := open(t, "etcd://alice:alicepw@"+addr)
	lease := acquire(t, s, request(t))
	a.add("dave", "davepw") // changes the revision of all users
	renew(t, s, lease)
	a.setPassword("alice", "otherpw")
	_, err := s.Renew(t.Context(), lease)
	isRefused(t, err, "wrong user or password", "")
	release(t, open(t, "etcd://alice:otherpw@"+addr), lease)
}
