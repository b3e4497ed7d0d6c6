//! Tests of both walls around an entry script, against hostile components, guests, workers and users. The
//! first wall is the WebAssembly sandbox, and the second is the process wall: the sandbox of the operating
//! system.

mod bad_component;
mod cgroups;
mod children;
mod children_wall;
mod grants;
mod hostile;
mod hostile_abi;
mod hostile_acts;
mod hostile_arrow;
mod hostile_components;
mod hostile_init;
mod hostile_limits;
mod hostile_tables;
mod hostile_worker;
mod limits;
mod os_sandbox;
mod other_users;
mod outside;
mod sandbox;
mod wall;
