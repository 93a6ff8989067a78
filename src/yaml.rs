//! YAML as Kubernetes reads it: events to a located tree with Go's scalar rules, and back.
