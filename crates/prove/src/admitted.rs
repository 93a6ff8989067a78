//! Whether an API server would accept the objects of a witness, and what admission would then see.
//!
//! A difference that shows only on objects that a server refuses, or changes before admission, is none that a cluster can
//! show: such a witness is printed as `data=raw`. No upstream counterpart; the server's part is [`super::server`].

use super::{
    server::{Refused, Server},
    witness::Situation,
};
use kyvtest_go_compat::value::Document;

/// Returns the request with its objects as admission sees them.
///
/// # Errors
/// The refusal of the API server.
pub(super) fn admitted(situation: &Situation, server: &Server) -> Result<Situation, Refused> {
    let mut admitted = situation.clone();
    server.admit(&mut admitted.request)?;
    Ok(admitted)
}

/// Returns the request with its objects as a server decodes them. Objects of subresources are not validated.
///
/// # Errors
/// The refusal of the API server.
pub(super) fn decoded(situation: &Situation, server: &Server) -> Result<Situation, Refused> {
    let resource = &situation.request.resource;
    if resource.subresource.is_empty() {
        return admitted(situation, server);
    }
    let namespace = if resource.namespaced {
        situation.request.namespace.as_str()
    } else {
        ""
    };
    let decode = |object: &Document| server.decode(&resource.object_kind, namespace, object);
    let mut seen = situation.clone();
    seen.request.object = decode(&situation.request.object)?;
    seen.request.old_object = decode(&situation.request.old_object)?;
    Ok(seen)
}
