//! What a tenant of a server has used.

use super::super::exit::{Exit, Problem};
use super::super::terminal::{print, print_json};
use super::super::usage::{UsageArguments, table_text};
use super::client::ServerClient;
use crate::report::{UsageBy, UsageGroup, UsageTable};
use anyhow::anyhow;
use serde_json::Value;
use std::collections::BTreeMap;

/// Shows what a tenant has used: the one that is named, or that of the token.
pub(in crate::cli) fn usage(
    server: &ServerClient,
    arguments: &UsageArguments,
) -> Result<Exit, Problem> {
    if arguments.by == UsageBy::Tenant {
        return Err(Problem::usage(anyhow!(
            "--by tenant does not work with a server: name a tenant with --tenant, and use --by job, month or component"
        )));
    }
    let selection = &arguments.selection;
    let tenant = match &selection.tenant {
        Some(tenant) => tenant.clone(),
        None => own_tenant(server)?,
    };
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_name(&tenant) {
        return Err(Problem::usage(anyhow!("{tenant:?} is not the name of a tenant")));
    }
    let mut path = format!("/v1/tenants/{tenant}/usage?by={}", arguments.by.name());
    for (name, time) in [("from", selection.from), ("to", selection.to)] {
        path += &time.map(|time| format!("&{name}={time}")).unwrap_or_default();
    }
    let found = server.get(&path)?;
    if arguments.json {
        print_json(&format!("{found:#}\n"))?;
        return Ok(Exit::Completed);
    }
    let mut table = UsageTable::new(arguments.by);
    for item in found["items"].as_array().into_iter().flatten() {
        let key = item["key"].as_str().unwrap_or_default().to_owned();
        table.groups.insert(key, group(item)?);
    }
    table.total = group(&found["total"])?;
    print(&table_text(&table, arguments.by))?;
    Ok(Exit::Completed)
}

/// The tenant of the token.
fn own_tenant(server: &ServerClient) -> Result<String, Problem> {
    let caller = server.get("/v1/me")?;
    let tenant = caller["tenant"].as_str().map(str::to_owned);
    tenant.ok_or_else(|| {
        Problem::usage(anyhow!("the token belongs to no tenant: name a tenant with --tenant"))
    })
}

fn group(value: &Value) -> Result<UsageGroup, Problem> {
    let sum = |key: &str| {
        serde_json::from_value(value[key].clone())
            .map_err(|error| Problem::usage(anyhow!("the server's answer is not a sum: {error}")))
    };
    Ok(UsageGroup {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        billable: sum("billable")?,
        not_billable: sum("not_billable")?,
        reasons: BTreeMap::new(),
    })
}
