//! The data that both engines read and write: cluster contents, policies of every kind, verdicts and their comparison.

pub mod compare;
pub mod kube;
pub mod policy;
pub mod verdict;
