//! Options that describe the cluster: the kinds it serves, its clock, and Kyverno's configuration.

use std::{fmt::Write as _, path::PathBuf, time::SystemTime};

use super::{Failure, input};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::text::shell::quoted;
use kyvtest_kyverno::config::Config;
use kyvtest_model::kube::Discovery;

/// The served kinds, and the clock.
#[derive(Debug, clap::Args)]
pub(super) struct Cluster {
    /// Files with CustomResourceDefinitions of the cluster
    #[arg(long, value_name = "FILE")]
    crds: Vec<PathBuf>,

    /// A table of the resources that the cluster serves [default: Kubernetes 1.36]
    #[arg(long, value_name = "FILE")]
    discovery: Option<PathBuf>,

    /// The time that expressions see, in RFC 3339 [default: the start of the run]
    ///
    /// It also decides which exceptions and accepted divergences have expired. Reports record it. If it is given,
    /// reports contain no measured times and are reproducible.
    #[arg(long, value_name = "TIME")]
    now: Option<String>,
}

impl Cluster {
    /// The kinds that the cluster serves.
    pub(super) fn discovery(&self) -> Result<Discovery, Failure> {
        input::cluster(self.discovery.as_deref(), &self.crds)
    }

    /// The files that describe the served kinds.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.crds.iter().chain(&self.discovery)
    }

    /// The time that expressions see: the given one, or the present.
    pub(super) fn clock(&self) -> Result<Option<Timestamp>, Failure> {
        Ok(self.now()?.or_else(started))
    }

    /// The time, if one is given.
    pub(super) fn now(&self) -> Result<Option<Timestamp>, Failure> {
        Ok(self.now.as_deref().map(input::time).transpose()?)
    }

    /// The options as given, for a command that runs in the same cluster.
    pub(super) fn replay(&self, words: &mut String) {
        for path in &self.crds {
            let _ = write!(words, " --crds {}", quoted(&path.display().to_string()));
        }
        if let Some(path) = &self.discovery {
            let _ = write!(words, " --discovery {}", quoted(&path.display().to_string()));
        }
        if let Some(now) = &self.now {
            let _ = write!(words, " --now {}", quoted(now));
        }
    }
}

/// The present in integral seconds, so that reports record it exactly.
pub(super) fn started() -> Option<Timestamp> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Timestamp::from_seconds(i64::try_from(since.as_secs()).ok()?)
}

#[derive(Debug, clap::Args)]
pub(super) struct KyvernoConfig {
    /// Kyverno's configuration: `bare`, `chart` (that of the Helm chart), or a file with its ConfigMap
    ///
    /// It determines which requests Kyverno evaluates at all. The default is `bare`, and `chart` for proofs at the
    /// layer `cluster`. `kyverno test` evaluates all requests, regardless of the configuration.
    #[arg(long, value_name = "bare|chart|FILE")]
    kyverno_config: Option<String>,
}

impl KyvernoConfig {
    /// The configuration; `default` if the option is absent.
    pub(super) fn read(&self, default: &str) -> Result<Config, Failure> {
        input::kyverno_config(self.kyverno_config.as_deref().unwrap_or(default))
    }

    /// Whether the option is given.
    pub(super) fn is_given(&self) -> bool {
        self.kyverno_config.is_some()
    }

    /// The option as given.
    pub(super) fn replay(&self, words: &mut String) {
        if let Some(word) = &self.kyverno_config {
            let _ = write!(words, " --kyverno-config {}", quoted(word));
        }
    }
}
