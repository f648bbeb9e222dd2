package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"flockd/backends"
)

// sound are the first patch releases, by minor version of etcd 3, that look once more
// whether a lease was revoked before they say that it was renewed (etcd-io/etcd#20590).
// Later minor versions have always done so.
var sound = map[int]int{4: 38, 5: 23, 6: 5}

// caveatOf is what is wrong with an etcd of that version; "" is nothing that we know of.
func caveatOf(version, endpoint string) string {
	major, minor, patch, ok := parseVersion(version)
	least, old := sound[minor]
	switch {
	case !ok || major > 3, major == 3 && minor > 6, major == 3 && old && patch >= least:
		return ""
	case major < 3 || !old:
		least, minor = sound[4], 4
	}
	return fmt.Sprintf("etcd %s at %s may say that it renewed a lease which it revokes, and then let two run: upgrade to 3.%d.%d or newer", backends.Quote(version, ""), endpoint, minor, least)
}

func parseVersion(version string) (major, minor, patch int, ok bool) {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return 0, 0, 0, false
	}
	var numbers [3]int
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return 0, 0, 0, false
		}
		numbers[i] = n
	}
	return numbers[0], numbers[1], numbers[2], true
}

// versionWithin is how long a member may take to tell its version. It is asked at the same
// time as the first request, and answers that by itself.
const versionWithin = time.Second

// learnVersion asks the member which etcd it is. A failure says nothing: requests
// that matter will fail as well.
func (c *cluster) learnVersion(l *link) {
	defer close(l.told)
	ctx, cancel := context.WithTimeout(context.Background(), versionWithin)
	defer cancel()
	resp, err := pb.NewMaintenanceClient(l.conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return
	}
	caveat := caveatOf(resp.Version, l.endpoint)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.caveat = caveat
}

// versionKnown waits until the member of the open connection has told its version.
func (c *cluster) versionKnown(ctx context.Context) {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil {
		return
	}
	select {
	case <-l.told:
	case <-ctx.Done():
	}
}

// Caveat says why a lock in this cluster is worth less than the documentation
// says, as far as is known: "" until the first request, and where there is nothing to
// say.
func (s *Store) Caveat() string {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.cluster.caveat
}
