//! Starts a prepared job on this machine: processes, slots for workers, GPUs, the monitor.

use super::admission::Admission;
use super::error::NodeError;
use super::job::{NodeJob, NodeRole};
use super::machine::NodeMachine;
use super::metering::Metering;
use super::models;
use super::object_waits::ObjectWaits;
use super::planner_reads::PlannerReads;
use super::python;
use super::run::RunningJob;
use super::setup::{plan_request, template};
use super::single_file;
use super::staging::Staged;
use crate::compile::WASMTIME_VERSION;
use crate::model::WorkerId;
use crate::output::remove_tree;
use crate::perf::MonitorOptions;
use crate::pool::{self, Pool};
use crate::protocol::node::PlanOptions;
use crate::protocol::{NodePolicy, PlanRequest, QueuePolicy};
use crate::typed_output::Finisher;
use std::collections::HashSet;
use std::time::Instant;
use tokio::sync::mpsc;

impl NodeJob {
    /// Makes the job ready to run, and moves its processes, GPUs and objects into the result. `plan`: how the
    /// inputs will be planned.
    ///
    /// # Errors
    /// If files of an earlier run cannot be removed, or if the compiled entry script cannot be used.
    pub fn start(&mut self, plan: &PlanOptions) -> Result<RunningJob, NodeError> {
        if self.role == NodeRole::Plans {
            // An interrupted shuffle may have left spill files.
            self.remove_spill()?;
        }
        let (events, workers) = mpsc::channel(256);
        let component = self.component.file.try_clone().map_err(NodeError::Component)?;
        let mut pool = Pool::new(self.options.program.clone(), component, events);
        if let Some(prestarted) = self.prestarted.take() {
            pool.adopt(prestarted);
        }
        let gpus = std::mem::take(&mut self.gpus);
        let monitor_options = MonitorOptions {
            job_dir: self.job_dir.clone(),
            node: self.role.node(),
            interval: self.spec.settings.resource_monitor_interval,
            budget: self.budget.clone(),
            wasmtime: WASMTIME_VERSION,
            gpus: gpus.indices(),
            processes: self.options.policy.process_lists(),
        };
        pool.confine(self.spec.worker.os_sandbox, &self.job_dir, self.budget.clone());
        pool.watch_gpus(gpus.memory());
        let policy = NodePolicy {
            workers: self.spec.process_count,
            run_timeout: self.spec.settings.run_invocation_timeout,
            load_timeout: self.spec.settings.task_overhead_timeout,
            gpus: gpus.indices(),
            queues: match self.role {
                NodeRole::Plans => QueuePolicy::SAME_MACHINE,
                NodeRole::RunsWorkers(_) => QueuePolicy::OTHER_MACHINE,
            },
        };
        // The request depends on `objects`, which is moved out below.
        let request = self.plan_request(plan);
        let reads = PlannerReads::new(&self.staged.sources);
        Ok(RunningJob {
            machine: NodeMachine::new(policy, 0),
            pool,
            workers,
            has_received: false,
            leaving: HashSet::new(),
            admission: Admission::new(self.slots.take()),
            gpus,
            wants_gpus: self.spec.gpus > 0,
            template: None,
            job_dir: self.job_dir.clone(),
            metering: Metering::new(self.budget.total().0),
            request,
            planner: None,
            tables: None,
            reads,
            waits: matches!(self.role, NodeRole::RunsWorkers(_)).then(ObjectWaits::default),
            spill: None,
            arrival_reported: None,
            objects: std::mem::take(&mut self.staged.objects),
            worker_limit: self.role.worker_limit(),
            monitor_options,
            monitor: None,
            perf: mpsc::unbounded_channel().1,
            start: Instant::now(),
        })
    }

    /// Begins to run the job, after [`give_models`](Self::give_models). The clock of the job begins at
    /// `start`, and its workers are numbered from `first_worker`. If the job `is_new`, the zygote starts
    /// while the planner reads the input.
    pub fn begin(&self, running: &mut RunningJob, start: Instant, first_worker: u32, is_new: bool) {
        running.begin(template(self), start, first_worker, is_new);
    }

    /// Tidies up the files of a worker whose leader was killed.
    pub fn settle(&self, worker: WorkerId) {
        pool::settle(&self.job_dir, worker);
    }

    /// Puts models and side inputs that are single files, and a script without a source folder, where workers
    /// find them. Replaces the files of an earlier run.
    ///
    /// # Errors
    /// If a model has changed since it was checked, if a side input cannot be read, or if there is no space.
    pub fn give_models(&self) -> Result<(), NodeError> {
        let side_inputs = self.real.side_inputs(&self.staged.side_inputs);
        let most = self.spec.job_limits.copies;
        single_file::give_side_inputs(&self.staged.side_inputs, &side_inputs, &self.job_dir, most)?;
        if let (Some(script), None) = (&self.spec.script, &self.real.source_directory) {
            python::copy(&self.real.entry_script, &script.guest, &self.job_dir.python_source())?;
        }
        Ok(models::stage(&self.staged.models, &self.inspected_models, &self.job_dir)?)
    }

    /// What makes output files of other formats than text lines.
    pub fn finisher(&self) -> Finisher {
        let NodeJob { spec, options, .. } = self;
        Finisher::new(&options.program, spec.worker.os_sandbox, &spec.output_format)
    }

    pub(super) fn plan_request(&self, plan: &PlanOptions) -> PlanRequest {
        let Staged { sources, objects, .. } = &self.staged;
        PlanRequest {
            retried_files: plan.retried_files.clone(),
            reports_positions: plan.reports_positions,
            continue_from: plan.continue_from.clone(),
            stores_spill: plan.stores_spill,
            asks: objects.asks(),
            ..plan_request(&self.spec, sources, self.spill.clone())
        }
    }

    pub(super) fn remove_spill(&self) -> Result<(), NodeError> {
        let path = self.spill.clone();
        remove_tree(&path).map_err(|source| NodeError::Spill { path, source })
    }
}
