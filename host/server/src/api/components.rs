//! Uploaded entry scripts: components, core modules, and scripts.

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::names::{TenantName, now};
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{Scope, ScriptAdded, ScriptDigest, ScriptRecord};
use crate::uploads::Upload;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use sandmill_files::opening::make_private;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The largest entry script.
const MOST_BYTES: u64 = 512 << 20;
/// The name of an entry script if the caller gives none.
const DEFAULT_NAME: &str = "component.wasm";
/// The endings of entry scripts that a server runs. It builds no sources: a build runs code of the tenant without a wall.
const ENDINGS: [&str; 6] = [".wasm", ".wat", ".py", ".js", ".mjs", ".ts"];

/// An uploaded entry script.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ComponentBody {
    /// The SHA-256 of its bytes, in hexadecimal.
    #[schema(value_type = String)]
    pub(crate) digest: ScriptDigest,
    /// The name of its file.
    pub(crate) name: String,
    /// Its length in bytes.
    pub(crate) bytes: u64,
    /// When it was uploaded first.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) uploaded: Timestamp,
}

impl From<ScriptRecord> for ComponentBody {
    fn from(script: ScriptRecord) -> Self {
        let ScriptRecord { digest, name, bytes, uploaded, .. } = script;
        Self { digest, name, bytes, uploaded }
    }
}

/// How an entry script is uploaded.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadAsked {
    /// The name of the file, such as `score.py`. The ending decides how it is run.
    #[param(default = "component.wasm")]
    name: Option<String>,
    /// For operators: the tenant.
    tenant: Option<String>,
}

/// Checks the name of an entry script's file.
///
/// # Errors
/// If it is not a plain name with an ending that a server runs.
pub(crate) fn script_name(name: Option<&str>) -> Result<String, Problem> {
    let name = name.unwrap_or(DEFAULT_NAME);
    let is_plain = (1..=100).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && name.starts_with(|first: char| first.is_ascii_alphanumeric());
    let ends_well = ENDINGS.iter().any(|ending| name.ends_with(ending));
    if is_plain && ends_well {
        return Ok(name.to_owned());
    }
    Err(Problem::bad_request(format!(
        "name: found {name:?}; expected a file name of at most 100 letters, digits, '.', '_' and '-' that begins with a letter or \
         a digit and ends with one of {}",
        ENDINGS.join(", ")
    )))
}

/// Uploads an entry script. The body is the file.
#[utoipa::path(
    post, path = "/v1/components", tag = "components", params(UploadAsked),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = ComponentBody, description = "It is new."),
        (status = 200, body = ComponentBody, description = "The tenant has it already."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn upload_component(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(asked): Query<UploadAsked>,
    mut body: Body,
) -> Result<Response, Problem> {
    caller.must_have(Scope::WriteJobs)?;
    let tenant = caller.acts_for(asked.tenant.map(TenantName::try_from).transpose()?)?;
    let name = script_name(asked.name.as_deref())?;
    let mut upload = Upload::begin(&server.folders).await?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::bad_request(error.to_string()))?;
        if let Ok(chunk) = frame.into_data() {
            add_bytes(&mut upload, &chunk).await?;
        }
    }
    let (script, is_new) = keep(&server, &caller, (tenant, name), upload).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(ComponentBody::from(script))).into_response())
}

/// Adds the next bytes of an entry script.
///
/// # Errors
/// If it has more bytes than an entry script may have.
pub(crate) async fn add_bytes(upload: &mut Upload, chunk: &Bytes) -> Result<(), Problem> {
    if upload.received() + chunk.len() as u64 > MOST_BYTES {
        let detail = format!("an entry script may have at most {MOST_BYTES} bytes");
        return Err(Problem::too_large(detail));
    }
    upload.add(chunk).await
}

/// Keeps an entry script that a tenant has sent. Returns whether the tenant did not have it before.
///
/// # Errors
/// If it is empty, if the tenant's quota is used up, or if it cannot be written.
pub(crate) async fn keep(
    server: &Arc<Server>,
    caller: &Caller,
    (tenant, name): (TenantName, String),
    upload: Upload,
) -> Result<(ScriptRecord, bool), Problem> {
    let received = upload.end().await?;
    if received.bytes == 0 {
        return Err(Problem::invalid("the entry script is empty"));
    }
    let (server, caller) = (server.clone(), caller.clone());
    blocking(move || {
        let quotas = server.state.tenant(&tenant)?.ok_or_else(|| Problem::not_found("tenant"))?;
        let most = quotas.quotas.upload_bytes;
        let (digest, bytes) = (received.digest.clone(), received.bytes);
        let place = server.folders.script(&tenant, &digest);
        let failed = |error: io::Error| Problem::internal(&error);
        place.parent().map_or(Ok(()), make_private).map_err(failed)?;
        // The file comes first: a record without a file would be of no use. A file without a record is replaced.
        received.keep(&place).map_err(failed)?;
        let detail = format!("{name}, {bytes} bytes");
        let entry = caller.audit("component.upload", Some(&tenant), digest.as_str(), detail);
        let script = ScriptRecord { tenant, digest, name, bytes, uploaded: now() };
        match server.state.add_script(&script, most, &entry)? {
            ScriptAdded::New => Ok((script, true)),
            ScriptAdded::Known(found) => Ok((found, false)),
            ScriptAdded::TooLarge { used } => {
                // Its place is free again.
                let _ = std::fs::remove_file(place);
                let most = most.unwrap_or_default();
                Err(Problem::quota(format!(
                    "the entry script has {bytes} bytes, and the tenant may upload {} more (quota upload_bytes: {most})",
                    most.saturating_sub(used)
                )))
            }
        }
    })
    .await
}

/// Which entry scripts to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ComponentsAsked {
    /// For operators: the tenant.
    pub(crate) tenant: Option<String>,
    /// The `next` of the page before. Leave it out for the first page.
    pub(crate) cursor: Option<String>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    pub(crate) limit: Option<u32>,
}

/// Lists the uploaded entry scripts.
#[utoipa::path(
    get, path = "/v1/components", tag = "components", params(ComponentsAsked),
    responses((status = 200, body = Page<ComponentBody>), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_components(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(asked): Query<ComponentsAsked>,
) -> Result<Json<Page<ComponentBody>>, Problem> {
    blocking(move || Ok(Json(listed_components(&server, &caller, asked)?))).await
}

/// A page of a tenant's entry scripts.
///
/// # Errors
/// If the caller may not read them, or the query is not as documented.
pub(crate) fn listed_components(
    server: &Server,
    caller: &Caller,
    asked: ComponentsAsked,
) -> Result<Page<ComponentBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    let tenant = caller.acts_for(asked.tenant.map(TenantName::try_from).transpose()?)?;
    let page = PageAsked { cursor: asked.cursor, limit: asked.limit };
    let (limit, after) = (page.limit()?, page.after::<ScriptDigest>()?);
    let found = server.state.scripts(&tenant, after.as_ref(), limit)?;
    let items = found.into_iter().map(ComponentBody::from).collect();
    Ok(Page::new(items, limit, |item: &ComponentBody| item.digest.to_string()))
}

/// Shows an uploaded entry script.
#[utoipa::path(
    get, path = "/v1/components/{digest}", tag = "components",
    params(
        ("digest" = String, Path, description = "The SHA-256 of the entry script."),
        ("tenant" = Option<String>, Query, description = "For operators: the tenant."),
    ),
    responses((status = 200, body = ComponentBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn show_component(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(digest): Path<String>,
    Query(asked): Query<ComponentsAsked>,
) -> Result<Json<ComponentBody>, Problem> {
    blocking(move || Ok(Json(found_component(&server, &caller, digest, asked.tenant)?))).await
}

/// An entry script of a tenant.
///
/// # Errors
/// If the caller may not read it, or the tenant has no such entry script.
pub(crate) fn found_component(
    server: &Server,
    caller: &Caller,
    digest: String,
    tenant: Option<String>,
) -> Result<ComponentBody, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    let tenant = caller.acts_for(tenant.map(TenantName::try_from).transpose()?)?;
    let digest = ScriptDigest::try_from(digest).map_err(|_| Problem::not_found("entry script"))?;
    let found = server.state.script(&tenant, &digest)?;
    let found = found.ok_or_else(|| Problem::not_found("entry script"))?;
    Ok(ComponentBody::from(found))
}
