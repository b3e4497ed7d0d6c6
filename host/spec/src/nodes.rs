//! The number of machines of a job, and what a job with a broker needs. A broker is a server that connects
//! machines, so that one job runs on several of them.

use super::error::{ErrorReport, SettingOrigin};
use super::job::JobSpec;
use super::machine::MachineSize;
use super::raw::RawJob;

/// The maximum number of machines of one job.
pub(super) const MAX_NODES: u32 = 1000;

/// The end of the advice to connect machines.
const BY_A_BROKER: &str = "by a broker (--broker URL; see docs/nodes.md)";

/// Returns the number of machines (docs/parallel-run-step.md C5). It is 1 if there was an error.
pub(super) fn count(raw: &RawJob, machine: &MachineSize, report: &ErrorReport) -> u32 {
    let Some(given) = &raw.node_count else {
        return azure_count(machine, report);
    };
    let count = given.value;
    if !machine.has_broker && count != 1 {
        let key = report.name_in_file("node_count");
        let message = format!(
            "found {count}; without a broker, a job runs on this machine only: leave {key} out, or \
             connect machines {BY_A_BROKER}"
        );
        given.blame(report, message);
        return 1;
    }
    if count > MAX_NODES {
        given.blame(report, too_many(count.into()));
        return 1;
    }
    count
}

/// The number of machines for a file from Azure that asks for several nodes. 1 for other files. Without a
/// broker, the job runs on one machine, because Azure's compute has no meaning here (rule C4).
fn azure_count(machine: &MachineSize, report: &ErrorReport) -> u32 {
    let Some(asked) = report.asked_nodes() else { return 1 };
    let key = &asked.key;
    let Some(count) = asked.count else {
        let effect = if machine.has_broker {
            String::from(
                "the job runs on 1 machine: to use more, give their number by --set node_count=4",
            )
        } else {
            this_machine_only(report)
        };
        report.notice(format!("{key}: the file asks for all nodes of a cluster; {effect}"));
        return 1;
    };
    if !machine.has_broker {
        let effect = this_machine_only(report);
        report.notice(format!("{key}: the file asks for {count} nodes; {effect}"));
        return 1;
    }
    match u32::try_from(count) {
        Ok(count) if count <= MAX_NODES => count,
        _ => {
            report.error(&asked.origin, key, too_many(count));
            1
        }
    }
}

fn too_many(count: u64) -> String {
    format!("found {count}; expected a whole number of machines from 1 to {MAX_NODES} (e.g. 4)")
}

/// The end of a notice about a file from Azure that asks for several nodes.
fn this_machine_only(report: &ErrorReport) -> String {
    let workers = report.name_in_file("process_count_per_node");
    format!(
        "the job runs on this machine only, with {workers} workers in all; to use more machines, connect them {BY_A_BROKER}"
    )
}

/// Checks what a job with a broker needs: a job store that all machines share.
pub(super) fn check_needs(spec: &JobSpec, raw: &RawJob, report: &ErrorReport) {
    if raw.job_store.is_none() && !report.has_error_at("job_store") {
        report_no_job_store(raw, report);
    }
    if let (Some(_), Some(given)) = (&spec.parent, &raw.parent) {
        let message = "copies for a parent job are not yet possible with a broker: remove parent, \
                       copy_logs_to_parent and push_metrics_to_parent";
        given.blame(report, message);
    }
}

/// Reports that a job with a broker has no job store, at the number of machines if the file has one.
fn report_no_job_store(raw: &RawJob, report: &ErrorReport) {
    let advice = "set job_store to the path of a folder that all machines share, or to an address in a store";
    let given = raw.node_count.as_ref().map(|given| (given.origin.clone(), given.key.clone()));
    match given.or_else(|| report.asked_nodes().map(|asked| (asked.origin, asked.key))) {
        Some((origin, key)) => {
            let message = format!("with a broker, a job needs job_store: {advice}");
            report.error(&origin, &key, message);
        }
        None => {
            let message = format!("missing; with a broker, a job needs it: {advice}");
            report.error(&SettingOrigin::File, "job_store", message);
        }
    }
}
