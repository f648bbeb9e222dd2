package etcd

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// authenticate gets a token where there is a user and none yet. It is good on
// every member.
func (c *cluster) authenticate(ctx context.Context, l *link) error {
	c.mu.Lock()
	ready := c.user == "" || c.token != "" || c.open
	c.mu.Unlock()
	if ready {
		return nil
	}
	resp, err := pb.NewAuthClient(l.conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: c.user, Password: c.password})
	err = clean(ctx, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, rpctypes.ErrAuthNotEnabled):
		c.open = true
		return nil
	case err != nil:
		return err
	}
	c.token = resp.Token
	return nil
}

// forget drops the token: it expired, or the user's password or rights have changed.
func (c *cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.open = "", false
}

// tokenExpired reports whether a new token may help.
func tokenExpired(err error) bool {
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// bearer adds the token to every request.
type bearer struct{ *cluster }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token == "" {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: b.token}, nil
}

// RequireTransportSecurity is false: the URL decides about TLS.
func (b bearer) RequireTransportSecurity() bool { return false }
