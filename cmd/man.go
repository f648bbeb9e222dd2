package cmd

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man [PAGE]",
		Short: "Print a page of the manual",
		Long: "Print a page of the manual, by default flockd(1), for man to show. A command's name\n" +
			"is enough, in one word or several:\n\n" +
			"  flockd man fence admit | man -l -",
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.pages(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			page := "flockd"
			if len(args) > 0 {
				page = strings.Join(args, "-")
			}
			for _, name := range []string{page, page + ".1", page + ".5", "flockd-" + page + ".1"} {
				if _, err := fs.Stat(a.files, "man/"+name); err == nil && path.Ext(name) != "" {
					return a.printFile("man/" + name)
				}
			}
			return usage("the pages are "+strings.Join(a.pages(), ", "), "there is no page %s", shortened(strings.Join(args, " ")))
		},
	}
}

// pages are the names of the manual's pages, without their sections.
func (a *app) pages() []string {
	files, _ := fs.Glob(a.files, "man/*.[0-9]")
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), path.Ext(file))
	}
	return files
}

// printFile prints an embedded file.
func (a *app) printFile(name string) error {
	text, err := fs.ReadFile(a.files, name)
	if err != nil {
		return errors.Join(errors.New("this build lacks a file"), err)
	}
	_, err = a.Stdout.Write(text)
	return err
}
