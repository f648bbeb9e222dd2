package servers

import (
	"os"
	"path/filepath"
	"testing"
)

// What an S3 server lets in, in the region us-east-1.
const (
	S3User     = "flockd"
	S3Password = "PASSWORD"
)

// S3 starts a server that has a bucket of each name. It compares and replaces an object
// in one step, as S3 says of If-Match and If-None-Match.
func S3(t testing.TB, buckets ...string) *Process {
	t.Helper()
	p := prepare(t, address(t), "ready to serve", nil, s3Tool.built(t), "{addr}", "{dir}", S3User, S3Password)
	for _, bucket := range buckets {
		if err := os.Mkdir(filepath.Join(p.Dir, bucket), 0o755); err != nil {
			t.Fatalf("bucket %s: %v", bucket, err)
		}
	}
	return p.serve()
}
