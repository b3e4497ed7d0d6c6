//! Uploaded entry scripts: components, core modules, and scripts.

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::names::{TenantName, fill_with_random, now};
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{Scope, ScriptDigest, ScriptRecord};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use sandmill_files::opening::make_private;
use sandmill_model::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::{self, Receiver, Sender};
use utoipa::{IntoParams, ToSchema};

/// The largest entry script.
const MOST_BYTES: u64 = 512 << 20;
/// The name of an entry script if the caller gives none.
const DEFAULT_NAME: &str = "component.wasm";
/// The endings of entry scripts that a server runs. It builds no sources: a build runs code of the tenant without a wall.
const ENDINGS: [&str; 6] = [".wasm", ".wat", ".py", ".js", ".mjs", ".ts"];
/// The chunks that may wait for the disk.
const CHUNKS: usize = 8;

/// An uploaded entry script.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ComponentBody {
    /// The SHA-256 of its bytes, in hexadecimal.
    #[schema(value_type = String)]
    digest: ScriptDigest,
    /// The name of its file.
    name: String,
    /// Its length in bytes.
    bytes: u64,
    /// When it was uploaded first.
    #[schema(value_type = String, format = DateTime)]
    uploaded: Timestamp,
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
    let mut upload = Upload::begin(&server, &tenant).await?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::bad_request(error.to_string()))?;
        if let Ok(chunk) = frame.into_data() {
            upload.add(chunk).await?;
        }
    }
    let (script, is_new) = upload.finish(caller, name).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(ComponentBody::from(script))).into_response())
}

/// An entry script that is being received.
pub(crate) struct Upload {
    server: Arc<Server>,
    tenant: TenantName,
    received: u64,
    most: u64,
    chunks: Sender<Bytes>,
    written: tokio::task::JoinHandle<io::Result<(PathBuf, ScriptDigest)>>,
}

impl Upload {
    /// Begins to receive an entry script of a tenant.
    ///
    /// # Errors
    /// If there is no such tenant, or its quota is used up.
    pub(crate) async fn begin(server: &Arc<Server>, tenant: &TenantName) -> Result<Self, Problem> {
        let (server, tenant) = (server.clone(), tenant.clone());
        let quota = {
            let (server, tenant) = (server.clone(), tenant.clone());
            blocking(move || {
                let found = server.state.tenant(&tenant)?;
                let found = found.ok_or_else(|| Problem::not_found("tenant"))?;
                let used = server.state.script_bytes(&tenant)?;
                Ok(found.quotas.upload_bytes.map(|most| most.saturating_sub(used)))
            })
            .await?
        };
        let most = quota.map_or(MOST_BYTES, |left| left.min(MOST_BYTES));
        let (chunks, received) = mpsc::channel(CHUNKS);
        let folder = server.folders.uploads();
        let written = tokio::task::spawn_blocking(move || write(&folder, received));
        Ok(Self { server, tenant, received: 0, most, chunks, written })
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// If they are more than the tenant may upload.
    pub(crate) async fn add(&mut self, chunk: Bytes) -> Result<(), Problem> {
        self.received += chunk.len() as u64;
        if self.received > MOST_BYTES {
            let detail = format!("an entry script may have at most {MOST_BYTES} bytes");
            return Err(Problem::too_large(detail));
        }
        if self.received > self.most {
            let detail = format!(
                "the tenant may upload {} more bytes of entry scripts (quota upload_bytes)",
                self.most
            );
            return Err(Problem::quota(detail));
        }
        // If the writer has failed, `finish` says why.
        let _ = self.chunks.send(chunk).await;
        Ok(())
    }

    /// Keeps the entry script under this name. Returns whether the tenant did not have it before.
    ///
    /// # Errors
    /// If it is empty or could not be written.
    pub(crate) async fn finish(
        self,
        caller: Caller,
        name: String,
    ) -> Result<(ScriptRecord, bool), Problem> {
        let Self { server, tenant, received, chunks, written, .. } = self;
        drop(chunks);
        let written = written.await.map_err(|error| Problem::internal(&error))?;
        let (file, digest) = written.map_err(|error| Problem::internal(&error))?;
        let removed = file.clone();
        let kept = blocking(move || {
            if received == 0 {
                return Err(Problem::invalid("the entry script is empty"));
            }
            if let Some(found) = server.state.script(&tenant, &digest)? {
                return Ok((found, false));
            }
            let place = server.folders.script(&tenant, &digest);
            let failed = |error: io::Error| Problem::internal(&error);
            place.parent().map_or(Ok(()), make_private).map_err(failed)?;
            std::fs::rename(&file, &place).map_err(failed)?;
            let uploaded = now();
            let tenant_name = tenant.clone();
            let script = ScriptRecord { tenant, digest, name, bytes: received, uploaded };
            let detail = format!("{}, {received} bytes", script.name);
            let entry = caller.audit(
                "component.upload",
                Some(&tenant_name),
                script.digest.as_str(),
                detail,
            );
            server.state.add_script(&script, &entry)?;
            Ok((script, true))
        })
        .await;
        // It is gone if it was kept.
        let _ = std::fs::remove_file(removed);
        kept
    }
}

/// Writes chunks into a new file. The file is removed if that fails, or if nothing more comes.
fn write(
    folder: &std::path::Path,
    mut chunks: Receiver<Bytes>,
) -> io::Result<(PathBuf, ScriptDigest)> {
    let mut random = [0; 16];
    fill_with_random(&mut random);
    let path = folder.join(hex(random));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = write_chunks(file, &mut chunks);
    if written.is_err() {
        // The server removes all uploads when it starts.
        let _ = std::fs::remove_file(&path);
    }
    Ok((path, written?))
}

fn write_chunks(mut file: File, chunks: &mut Receiver<Bytes>) -> io::Result<ScriptDigest> {
    let mut digest = Sha256::new();
    while let Some(chunk) = chunks.blocking_recv() {
        digest.update(&chunk);
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    Ok(ScriptDigest::from_bytes(&digest.finalize()))
}

/// Which entry scripts to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ComponentsAsked {
    /// For operators: the tenant.
    tenant: Option<String>,
    /// The `next` of the page before. Leave it out for the first page.
    cursor: Option<String>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
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
    caller.must_have(Scope::ReadJobs)?;
    let tenant = caller.acts_for(asked.tenant.map(TenantName::try_from).transpose()?)?;
    let page = PageAsked { cursor: asked.cursor, limit: asked.limit };
    let (limit, after) = (page.limit()?, page.after::<ScriptDigest>()?);
    blocking(move || {
        let found = server.state.scripts(&tenant, after.as_ref(), limit)?;
        let items = found.into_iter().map(ComponentBody::from).collect();
        Ok(Json(Page::new(items, limit, |item: &ComponentBody| item.digest.to_string())))
    })
    .await
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
    caller.must_have(Scope::ReadJobs)?;
    let tenant = caller.acts_for(asked.tenant.map(TenantName::try_from).transpose()?)?;
    let digest = ScriptDigest::try_from(digest).map_err(|_| Problem::not_found("entry script"))?;
    blocking(move || {
        let found = server.state.script(&tenant, &digest)?;
        let found = found.ok_or_else(|| Problem::not_found("entry script"))?;
        Ok(Json(ComponentBody::from(found)))
    })
    .await
}
