package etcd

import (
	"context"
	"errors"
	"io"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// watched is a span of keys, and what happens there that counts.
type watched struct {
	span
	puts, deletes bool
}

func one(key string) span { return span{first: key} }

// changes is all that happens to a key.
func changes(key string) watched { return watched{one(key), true, true} }

// watch returns when something of that has happened at revision from or later. It begins
// again, once, where the token has expired, or the connection has broken.
func (s *Store) watch(ctx context.Context, from int64, what ...watched) error {
	err := s.watchOnce(ctx, from, what)
	switch {
	case tokenExpired(err) && s.cluster.user != "":
		s.cluster.forget()
	case !isMembers(err) || !isUnavailable(err):
		return err
	}
	return s.watchOnce(ctx, from, what)
}

// watchOnce is watch on one connection. Only connecting is bounded by ?timeout=.
func (s *Store) watchOnce(ctx context.Context, from int64, what []watched) error {
	connecting, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	l, err := s.cluster.connected(connecting)
	if err == nil {
		err = s.cluster.authenticate(connecting, l)
	}
	if err != nil {
		return err
	}
	err = l.watch(ctx, from, what)
	if err == nil || errors.Is(err, errCompacted) || ctx.Err() != nil {
		return err
	}
	if isUnavailable(err) {
		s.cluster.drop(l)
	}
	return named(l, err)
}

// errCompacted says that a watch began too far in the past: what it would have
// told is forgotten.
var errCompacted = errors.New("compacted")

// watch returns when something of that has happened at revision from or later.
func (l *link) watch(ctx context.Context, from int64, what []watched) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stream, err := l.watches.Watch(ctx)
	if err != nil {
		return clean(ctx, err)
	}
	for _, w := range what {
		create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: w.create(from)}}
		if err := stream.Send(create); errors.Is(err, io.EOF) {
			break // Recv tells why
		} else if err != nil {
			return clean(ctx, err)
		}
	}
	for {
		resp, err := stream.Recv()
		switch {
		case err != nil:
			return clean(ctx, err)
		case resp.CompactRevision > 0:
			return errCompacted
		case resp.Canceled:
			return cancelled(resp.CancelReason)
		case len(resp.Events) > 0:
			return nil
		}
	}
}

// create asks for what happens at revision from or later.
func (w watched) create(from int64) *pb.WatchCreateRequest {
	create := &pb.WatchCreateRequest{Key: []byte(w.first), RangeEnd: []byte(w.end), StartRevision: from}
	if !w.puts {
		create.Filters = append(create.Filters, pb.WatchCreateRequest_NOPUT)
	}
	if !w.deletes {
		create.Filters = append(create.Filters, pb.WatchCreateRequest_NODELETE)
	}
	return create
}

// cancelled is the error whose text the server gives as the reason for ending a watch.
func cancelled(reason string) error {
	_, text, found := strings.Cut(reason, "desc = ")
	if !found {
		text = reason
	}
	return rpctypes.Error(status.Error(codes.Unknown, text))
}
