//! Gates: every recorded row of `golden/normalise` against the library.

mod account;
mod create;
mod own;
mod support;
mod table;
mod update;
mod vectors;

#[test]
fn created_objects_are_those_of_the_server() {
    if let Some(path) = kyvtest_gates::shared("golden/normalise/normalise.jsonl") {
        create::gate("normalise", &path);
    }
}

#[test]
fn updated_objects_are_those_of_the_server() {
    if let Some(path) = kyvtest_gates::shared("golden/normalise/update.jsonl") {
        update::gate("normalise-update", &path);
    }
}

#[test]
fn pods_get_what_their_accounts_give() {
    if let Some(path) = kyvtest_gates::shared("golden/normalise/serviceaccount.jsonl") {
        account::gate("normalise-serviceaccount", &path);
    }
}
