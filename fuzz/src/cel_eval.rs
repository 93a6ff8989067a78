//! The body of the target `cel_eval`: whatever is an expression is checked, planned and evaluated to one and the same
//! result, and never costs much more than its limit.

use kyvtest::{
    cel::{
        profile::Profile,
        query::{Query, QueryResult, run_query},
    },
    value::Document,
};

/// What the expressions read.
const OBJECT: &str = r#"{"metadata":{"name":"a","namespace":"b","labels":{"a":"b","c":null},"annotations":{}},
"spec":{"replicas":3,"ratio":0.5,"hostNetwork":true,"containers":[{"name":"a","image":"reg/a:1","ports":[{"containerPort":80}]},
{"name":"b","image":null}],"volumes":[]},"a":{"a":{"a":[1,2,[3]]}},"list":[1,"a",null,true,1.5,{},[]],"size":"10Mi"}"#;

/// A limit that keeps one execution short.
const LIMIT: u64 = 100_000;

/// Checks one input.
///
/// # Panics
/// If the evaluator breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let object = Document::from_json(OBJECT).expect("the object is JSON");
    for profile in [Profile::kubernetes(), Profile::kyverno()] {
        let query = Query {
            object: Some(&object),
            cost_limit: Some(LIMIT),
            ..Query::new(&text, profile)
        };
        let first = run_query(&query);
        match &first {
            QueryResult::Value { cost, .. } => assert!(cost.is_none_or(|cost| cost <= LIMIT), "over the limit"),
            QueryResult::Failed { error, .. } => assert!(!error.is_empty()),
            QueryResult::Refused(error) => assert!(!error.first_line().is_empty()),
        }
        // What is random, or the time of day, may differ.
        if !["rand", "now", "uuid"].iter().any(|word| text.contains(word)) {
            assert_eq!(first, run_query(&query), "the second result differs");
        }
    }
}
