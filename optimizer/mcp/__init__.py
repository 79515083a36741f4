"""The engine as tools of the Model Context Protocol, so that any agent can be the policy."""
