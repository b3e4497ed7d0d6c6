//! Jobs whose workers run on several machines, connected by a broker. Each machine is an agent, a process of its
//! own. The output and the job's store are in the folder that they share. In `inputs`, data and results are in a store.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

mod backends;
mod chaos;
mod chaos_jobs;
mod cluster;
mod deploy;
mod deploy_kubernetes;
mod deploy_slurm;
mod doctor;
mod followed;
mod forged;
mod full_disks;
mod hostile;
mod inputs;
mod leads;
mod losses;
mod other_files;
mod outputs;
mod partitions;
mod published;
mod roles;
mod several;
mod signers;
mod sources;
mod spilled;
mod stored;
mod submitters;
mod taken_over;
mod twins;
mod unpublished;
mod uploads;
