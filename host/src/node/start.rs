//! From a prepared job to what runs it on this machine: processes, places for workers, GPUs, the monitor.

use super::error::NodeError;
use super::gpus::Gpus;
use super::job::NodeJob;
use super::models;
use super::room::Room;
use super::setup::{SetupTemplate, plan_request};
use super::staging::Staged;
use crate::compile::WASMTIME_VERSION;
use crate::finish::Finisher;
use crate::output::remove_tree;
use crate::perf::{Monitor, MonitorOptions, PerfEvent};
use crate::pool::{Pool, PoolEvent};
use crate::protocol::node::Plan;
use crate::protocol::{FromPlanner, PlanRequest};
use crate::store::Objects;
use tokio::sync::mpsc;

/// What runs a job on this machine.
#[derive(Debug)]
pub struct Running {
    /// The job's processes.
    pub pool: Pool,
    /// What workers say.
    pub workers: mpsc::Receiver<PoolEvent>,
    /// Where there are places for workers.
    pub room: Room,
    /// The GPUs that are the job's until its end.
    pub gpus: Gpus,
    /// What the inputs are made of.
    pub objects: Objects,
    monitor: MonitorOptions,
    request: PlanRequest,
}

impl NodeJob {
    /// Makes ready what runs the job, and hands over what this holds for that. `plan` is how the inputs will be planned.
    ///
    /// # Errors
    /// If what an earlier run left is in the way, or the compiled entry script cannot be used.
    pub fn start(&mut self, plan: &Plan) -> Result<Running, NodeError> {
        // What an interrupted shuffle left would be in the way.
        self.remove_spill()?;
        let (events, workers) = mpsc::channel(256);
        let component = self.component.file.try_clone().map_err(NodeError::Component)?;
        let mut pool = Pool::new(self.options.program.clone(), component, events);
        if let Some(standby) = self.standby.take() {
            pool.take_over(standby);
        }
        let gpus = std::mem::take(&mut self.gpus);
        let monitor = MonitorOptions {
            job_dir: self.job_dir.clone(),
            interval: self.spec.resource_monitor_interval,
            budget: self.budget.clone(),
            wasmtime: WASMTIME_VERSION,
            gpus: gpus.indices(),
            processes: self.options.policy.process_lists(),
        };
        pool.confine(self.spec.os_sandbox, &self.job_dir, self.budget.clone());
        pool.watch_gpus(gpus.memory());
        let request = self.plan_request(plan);
        let room = Room::new(self.turns.take());
        let objects = std::mem::take(&mut self.staged.objects);
        Ok(Running { pool, workers, room, gpus, objects, monitor, request })
    }

    /// Puts models that are single files where workers find them: what an earlier run left must not be in the way any
    /// more.
    ///
    /// # Errors
    /// If a model changed since it was looked at, or there is no room for it.
    pub fn give_models(&self) -> Result<(), NodeError> {
        Ok(models::stage(&self.staged.models, &self.seen, &self.job_dir)?)
    }

    /// What every worker is told; once models are [given](Self::give_models).
    pub fn template(&self) -> SetupTemplate {
        SetupTemplate::new(self)
    }

    /// Makes an output file that is not of lines.
    pub fn finisher(&self) -> Finisher {
        let NodeJob { spec, options, .. } = self;
        Finisher::new(&options.program, spec.os_sandbox, &spec.output_format)
    }

    /// What the planner is asked for.
    pub(super) fn plan_request(&self, plan: &Plan) -> PlanRequest {
        let Staged { sources, objects, .. } = &self.staged;
        PlanRequest {
            again: plan.again.clone(),
            asks: objects.come_on_demand(),
            ..plan_request(&self.spec, sources, self.job_dir.spill())
        }
    }

    pub(super) fn remove_spill(&self) -> Result<(), NodeError> {
        let path = self.job_dir.spill();
        remove_tree(&path).map_err(|source| NodeError::Spill { path, source })
    }
}

impl Running {
    /// Has the planner cut the inputs. Returns what it says.
    ///
    /// # Errors
    /// If its process cannot be started.
    pub fn plan(&mut self) -> Result<mpsc::Receiver<FromPlanner>, NodeError> {
        let (events, planner) = mpsc::channel(4);
        self.pool.plan(&self.request, events).map_err(NodeError::Planner)?;
        Ok(planner)
    }

    /// Watches what the workers use, and returns what is found.
    ///
    /// # Errors
    /// If that cannot be begun.
    pub fn watch(&self) -> Result<(Monitor, mpsc::UnboundedReceiver<PerfEvent>), NodeError> {
        let (events, perf) = mpsc::unbounded_channel();
        let monitor = Monitor::start(self.monitor.clone(), events).map_err(NodeError::Monitor)?;
        Ok((monitor, perf))
    }
}
