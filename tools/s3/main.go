// Command s3 serves the folders of a folder as S3 does, for tests: versitygw, without the
// stores, accounts and web pages that its own program brings along and that double the time
// it takes to build.
//
//	s3 ADDRESS FOLDER USER PASSWORD
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/metrics"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "s3 ADDRESS FOLDER USER PASSWORD")
		os.Exit(2)
	}
	root := middlewares.RootUserConfig{Access: os.Args[3], Secret: os.Args[4]}
	if err := serve(os.Args[1], os.Args[2], root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve prints "ready to serve" when it is.
func serve(address, folder string, root middlewares.RootUserConfig) error {
	// An ETag is kept with its file, so that whoever reads has both of one version.
	if err := (meta.XattrMeta{}).Test(folder); err != nil {
		return err
	}
	store, err := posix.New(folder, meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		return err
	}
	counts, err := metrics.NewManager(context.Background(), metrics.Config{}) // none is sent
	if err != nil {
		return err
	}
	users := auth.NewIAMServiceSingle(auth.Account{Access: root.Access, Secret: root.Secret, Role: auth.RoleAdmin})
	server, err := s3api.New(store, root, "us-east-1", users, nil, nil, nil, counts,
		s3api.WithConcurrencyLimiter(1000, 1000),
		s3api.WithOnListen(func() { fmt.Println("ready to serve") }))
	if err != nil {
		return err
	}
	return server.ServeMultiPort([]string{address})
}
