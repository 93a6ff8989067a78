//! The data that both engines read and write: what a cluster serves and holds, policies of every kind, verdicts and how two
//! verdicts compare.

pub mod compare;
pub mod kube;
pub mod policy;
pub mod verdict;
