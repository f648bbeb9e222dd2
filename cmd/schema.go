package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/backends/all"
)

func (a *app) newSchema() *cobra.Command {
	prefix := newValue("NAME", backends.DefaultPrefix, nonEmpty)
	grantee := unsetValue("USER", "", nonEmpty)
	cmd := &cobra.Command{
		Use:   "schema " + strings.Join(all.Databases(), "|") + " [flags]",
		Short: "Print what a database needs, for its administrator",
		Long: "Print the statements that make the tables and functions which flockd uses in a\n" +
			"database, and that let a user work with them. flockd makes them itself on first\n" +
			"use, if it may; else the administrator runs them once, and once more after an\n" +
			"upgrade of flockd that asks for it. To run them again changes nothing; on SQLite,\n" +
			"of which they are for an empty file, it fails.",
		Example: strings.Trim(schemaExamples, "\n"),
		Args:    arguments(1, "database"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkValues(cmd.Flags(), a.Args); err != nil {
				return err
			}
			return a.printSchema(args[0], prefix.of, grantee.of)
		},
		ValidArgs: all.Databases(),
	}
	addFlag(cmd.Flags(), groupLock, "prefix", "", prefix, "of the tables, as ?prefix= of the store's URL; not for sqlite")
	addFlag(cmd.Flags(), groupLock, "grant-to", "", grantee, "the database's user that flockd runs as; not for sqlite").
		Annotations[byDefault] = []string{"flockd"}
	completeFlags(cmd)
	return cmd
}

const schemaExamples = `
  flockd schema postgres --grant-to jobs | psql -v ON_ERROR_STOP=1 -d app
  flockd schema mysql --grant-to jobs | mariadb app
`

func nonEmpty(text string) (string, error) {
	if text == "" {
		return "", errEmpty
	}
	return text, nil
}

func (a *app) printSchema(database, prefix, grantee string) error {
	text, err := all.Schema(database, prefix, grantee)
	if err != nil {
		return usage("", "%v", err)
	}
	_, err = fmt.Fprint(a.Stdout, text)
	return err
}
