package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// fence is the JSON of a resource's highest token. All of one version begin alike, and have
// so many digits that etcd, which compares bytes, compares tokens.
type fence struct {
	V     int    `json:"v"`
	Token string `json:"token"`
}

func decimal(token backends.Token) string {
	const digits = 16 // of backends.MaxToken
	return fmt.Sprintf("%0*d", digits, token)
}

func fenceOf(token backends.Token) string {
	return encode(fence{backends.RecordVersion, decimal(token)})
}

// fenceHead is what a record begins with whose token begins with these digits.
func fenceHead(digits string) string {
	return strings.TrimSuffix(encode(fence{backends.RecordVersion, digits}), `"}`)
}

// tokenOf reads such a record.
func tokenOf(kv *mvccpb.KeyValue) (backends.Token, error) {
	var f fence
	if err := decode(kv, &f); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(f.Token, 10, 64)
	token := backends.Token(n)
	ours := strings.HasPrefix(string(kv.Value), fenceHead(decimal(token))+`"`)
	if err != nil || backends.CheckToken(token) != nil || !ours {
		return 0, foreign(string(kv.Key))
	}
	return token, nil
}

// Admit implements backends.Register.
func (s *Store) Admit(ctx context.Context, resource string, token backends.Token) error {
	return s.failed("admit a token for", resource, s.admit(ctx, resource, token, false))
}

// Reset implements backends.Register.
func (s *Store) Reset(ctx context.Context, resource string, to backends.Token, down bool) error {
	return s.failed("reset the token of", resource, s.admit(ctx, resource, to, down))
}

func (s *Store) admit(ctx context.Context, resource string, token backends.Token, down bool) error {
	if err := backends.CheckAdmit(resource, token); err != nil {
		return err
	}
	key := s.fence(resource)
	put := clientv3.OpPut(key, fenceOf(token))
	return s.call(ctx, func(ctx context.Context, l *link) error {
		first := clientv3.OpTxn(absent(key), []clientv3.Op{put}, nil)
		resp, err := l.txn(ctx, yields(key, token, down), []clientv3.Op{put}, []clientv3.Op{clientv3.OpGet(key), first})
		if err != nil || resp.Succeeded || resp.Responses[1].GetResponseTxn().Succeeded {
			return err
		}
		highest, err := tokenOf(kvs(resp.Responses[0])[0])
		if err == nil && highest > token {
			err = &backends.StaleError{Resource: resource, Token: token, Highest: highest}
		}
		return err
	})
}

// yields compares: a record is there that the token may replace. It has to begin as ours do, since
// that of a newer flockd may be smaller by its bytes. Of a key that isn't there every comparison of
// values is false.
func yields(key string, token backends.Token, down bool) []clientv3.Cmp {
	below := token
	if down {
		below = backends.MaxToken + 1
	}
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(key), ">", fenceHead(decimal(1))),
		clientv3.Compare(clientv3.Value(key), "<", fenceHead(decimal(below))),
	}
}

// Highest implements backends.Register.
func (s *Store) Highest(ctx context.Context, resource string) (highest backends.Token, err error) {
	read := clientv3.OpGet(s.fence(resource))
	err = s.call(ctx, func(ctx context.Context, l *link) error {
		resp, err := l.txn(ctx, nil, []clientv3.Op{read}, nil)
		if err != nil {
			return err
		}
		found := kvs(resp.Responses[0])
		if len(found) == 0 {
			return backends.ErrNotFound
		}
		highest, err = tokenOf(found[0])
		return err
	})
	return highest, s.failed("look up the token of", resource, err)
}
