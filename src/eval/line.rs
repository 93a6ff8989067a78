//! The lines of `kyvtest eval --cases`: one JSON object per line in, one per line out. `docs/eval.md` describes the
//! format.

use serde_json::{Value as Json, json};

use super::{BothResponses, Evaluator, Settings};
use kyvtest_go_compat::value::{Document, go_json};
use kyvtest_kyverno::{config::Config, refusal::RuleReview, response::RegistryUse};
use kyvtest_prove::server::{Data, Refused};

/// The result of a line, or its error.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The output.
    pub answer: Json,
    /// Whether the line was valid.
    pub readable: bool,
}

/// The keys of a line.
const KEYS: [&str; 9] = [
    "id",
    "objects",
    "request",
    "config",
    "data",
    "apiCallResponses",
    "globalContextEntries",
    "context",
    "imageMocks",
];

pub fn answer(text: &str, settings: &Settings) -> Line {
    let row: Json = match serde_json::from_str(text) {
        Ok(row) => row,
        Err(error) => return unreadable(Json::Null, &format!("not JSON: {error}")),
    };
    let id = row.get("id").cloned().unwrap_or(Json::Null);
    match decide(&row, settings) {
        Ok(mut answer) => {
            let mut line = serde_json::Map::new();
            line.insert("id".to_owned(), id);
            line.append(&mut answer);
            Line {
                answer: line.into(),
                readable: true,
            }
        }
        Err(problem) => unreadable(id, &problem),
    }
}

pub(super) fn unreadable(id: Json, error: &str) -> Line {
    Line {
        answer: json!({"id": id, "error": error}),
        readable: false,
    }
}

fn decide(row: &Json, settings: &Settings) -> Result<serde_json::Map<String, Json>, String> {
    let fields = row.as_object().ok_or("the line is not an object")?;
    if let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let keys = KEYS.map(|key| format!("`{key}`")).join(", ");
        return Err(format!("unknown key `{unknown}`; the keys of a line are {keys}"));
    }
    let objects = match row.get("objects") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(objects)) => objects.iter().map(Document::from).collect(),
        Some(_) => return Err("`objects` is not a list".to_owned()),
    };
    if let Some(number) = objects.iter().position(|object| object.root().as_map().is_none()) {
        return Err(format!("`objects[{number}]` is not an object"));
    }
    let request = row.get("request").ok_or("missing `request`")?;
    let mut settings = settings.clone();
    match row.get("config").and_then(Json::as_str) {
        None => {}
        Some("bare") => settings.config = Config::bare(),
        Some("chart") => settings.config = Config::chart(),
        Some(other) => return Err(format!("`config` is `bare` or `chart`, not `{other}`")),
    }
    if let Some(data) = row.get("data") {
        let named = data.as_str().and_then(Data::named);
        settings.data = named.ok_or_else(|| format!("`data` is `raw` or `normalised`, not `{data}`"))?;
    }
    let cluster = Evaluator::with_mocks(&objects, Document::from(row).root(), &settings);
    let request = cluster.request(Document::from(request).root())?;
    let (answers, refused) = cluster.evaluate(&request, settings.data);
    let mut line = render(&answers);
    if settings.data == Data::Normalised {
        line.insert("data".to_owned(), data(refused.as_ref()));
    }
    let invalid: Vec<Json> = cluster
        .invalid()
        .iter()
        .map(|invalid| json!({"object": invalid.object, "field": invalid.field, "message": invalid.message}))
        .collect();
    line.insert("invalid".to_owned(), invalid.into());
    Ok(line)
}

/// The data that the policies saw: `normalised`, or `raw` with the API server's error.
pub fn data(refused: Option<&Refused>) -> Json {
    match refused {
        None => json!({"lens": Data::Normalised.name()}),
        Some(refused) => json!({
            "lens": Data::Raw.name(),
            "refused": {"stage": refused.stage.name(), "code": refused.code(), "message": refused.message},
        }),
    }
}

/// An object as the API server writes it: integers have no point.
fn json_object(object: Option<&Document>) -> Json {
    let Some(object) = object else {
        return Json::Null;
    };
    let mut text = String::new();
    let written = go_json::write_value(&mut text, object.root()).ok();
    let read = written.and_then(|()| serde_json::from_str(&text).ok());
    read.unwrap_or_else(|| object.root().to_serde())
}

/// The result of a rule; `generated` and `mocked` are present if they apply.
fn rule(answered: &RuleReview) -> Json {
    let response = &answered.response;
    let mut rule = json!({
        "policy": answered.policy,
        "rule": response.rule,
        "status": response.status.as_str(),
        "message": response.message,
    });
    if !answered.generated.is_empty() {
        let generated = answered.generated.iter().map(|object| json_object(Some(object)));
        rule["generated"] = generated.collect();
    }
    if response.registry == RegistryUse::Mocked {
        rule["mocked"] = true.into();
    }
    rule
}

/// The responses as JSON: the keys `kyverno`, `vap` and `divergence`.
pub fn render(answers: &BothResponses) -> serde_json::Map<String, Json> {
    let kyverno = answers.kyverno.as_ref().map(|kyverno| {
        let review = &kyverno.review;
        let rules: Vec<Json> = review.responses.iter().map(rule).collect();
        // Only a registry knows whether a request with such a result is admitted.
        let decided = !kyverno.is_undecided();
        json!({
            "allowed": decided.then_some(review.refusal.is_none()),
            "code": decided.then_some(kyverno.code),
            "status": kyverno.status.as_str(),
            "effect": kyverno.effect.as_str(),
            "message": kyverno.message,
            "warnings": review.warnings,
            "rules": rules,
            "object": json_object(answers.kyverno_object.as_ref()),
        })
    });
    let vap = answers.vap.as_ref().map(|vap| {
        json!({
            "allowed": vap.allowed,
            "code": vap.code,
            "reason": vap.reason,
            "status": vap.status.as_str(),
            "effect": vap.effect.as_str(),
            "message": vap.message,
            "warnings": vap.warnings,
            "audit": vap.audit,
            "generated": answers.generated,
            "object": json_object(answers.vap_object.as_ref()),
        })
    });
    let divergence = answers.divergence.as_ref().map(|divergence| {
        json!({
            "class": divergence.class.as_str(),
            "code": divergence.code,
            "cause": divergence.cause,
        })
    });
    let mut line = serde_json::Map::new();
    line.insert("kyverno".to_owned(), kyverno.into());
    line.insert("vap".to_owned(), vap.into());
    line.insert("divergence".to_owned(), divergence.into());
    line
}
