//! The life of jobs: calls of the entry script, retries, kills, resumes, full disks, and concurrent jobs.

mod bounds;
mod contract;
mod entry_rules;
mod followed;
mod full_disk;
mod javascript;
mod job_store;
mod job_store_chaos;
mod job_store_commands;
mod job_store_over;
mod job_store_plan;
mod killed;
mod machine_caps;
mod python;
mod resume;
mod resume_kills;
mod resume_points;
mod retries;
mod surroundings;
