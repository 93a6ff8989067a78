//! Whether an API server would accept the objects of a witness, and what admission would then see.
//!
//! A difference that shows only on objects that a server refuses, or changes before admission, is none that a cluster can
//! show: such a witness is printed as `data=raw`. No upstream counterpart; the server's part is [`super::server`].

use super::{
    server::{Refused, Server},
    witness::Situation,
};

/// Returns the request with its objects as admission sees them.
///
/// # Errors
/// The refusal of the API server.
pub(super) fn admitted(situation: &Situation, server: &Server) -> Result<Situation, Refused> {
    let mut admitted = situation.clone();
    server.admit(&mut admitted.request)?;
    Ok(admitted)
}
