//! Admission operations.

use std::{fmt, str::FromStr};

/// The operation of an admission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Delete an object.
    Delete,
    /// Open a connection, such as `kubectl exec`.
    Connect,
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Create, Self::Update, Self::Delete, Self::Connect];

    /// The name in requests and policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Not a valid operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation `{0}`")]
pub struct UnknownOperation(String);

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations(u8);

impl Operations {
    /// No operation: the resource is read-only.
    pub const NONE: Self = Self(0);

    pub(crate) const fn of(operations: &[Operation]) -> Self {
        let mut set = 0;
        let mut i = 0;
        while i < operations.len() {
            set |= 1 << operations[i] as u8;
            i += 1;
        }
        Self(set)
    }

    /// Whether an operation is in the set.
    pub const fn contains(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }

    /// The operations in the set.
    pub fn iter(self) -> impl Iterator<Item = Operation> {
        Operation::ALL
            .into_iter()
            .filter(move |operation| self.contains(*operation))
    }
}
