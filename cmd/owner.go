package cmd

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"flockd/backends"
)

// owner tells others who asks: never the arguments.
func owner(streams Streams, command, note string) backends.Owner {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return backends.Owner{
		User:    userName(streams.UID),
		Host:    host,
		PID:     os.Getpid(),
		Command: filepath.Base(command),
		Note:    note,
	}
}

// userName is the name of the user, or the number where there is no name.
func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		return u.Username
	}
	return id
}

// ciRun is the URL of the CI run that we are part of; empty: none is known.
func ciRun(streams Streams) string {
	for _, name := range []string{
		"CI_JOB_URL",            // GitLab
		"BUILDKITE_BUILD_URL",   // Buildkite
		"CIRCLE_BUILD_URL",      // CircleCI
		"TRAVIS_JOB_WEB_URL",    // Travis CI
		"DRONE_BUILD_LINK",      // Drone
		"CI_PIPELINE_FORGE_URL", // Woodpecker
		"BUILD_URL",             // Jenkins
	} {
		if url := streams.getenv(name); url != "" && len(url) <= maxNote {
			return url
		}
	}
	server, repo, run := streams.getenv("GITHUB_SERVER_URL"), streams.getenv("GITHUB_REPOSITORY"), streams.getenv("GITHUB_RUN_ID")
	if server == "" || repo == "" || run == "" {
		return azureRun(streams)
	}
	return server + "/" + repo + "/actions/runs/" + run
}

func azureRun(streams Streams) string {
	server, project, build := streams.getenv("SYSTEM_COLLECTIONURI"), streams.getenv("SYSTEM_TEAMPROJECT"), streams.getenv("BUILD_BUILDID")
	if server == "" || project == "" || build == "" {
		return ""
	}
	return server + project + "/_build/results?buildId=" + build
}
