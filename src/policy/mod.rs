//! Policies for scanners, firewalls and sensors, in each product's own grammar.
//!
//! [`Scope`] says what is to be left alone: fixed ports, and hosts whose listeners are on ports that the kernel chose.
//! [`Product::write`] says it to one product. [`Coverage::read`] reads a policy again, whoever changed it meanwhile, and
//! [`Coverage::lacks`] tells what of today's fleet it leaves open.

mod coverage;
mod firewall;
mod form;
mod head;
mod kubernetes;
pub mod nets;
mod portscan;
mod product;
mod read;
mod scope;
mod signature;
mod vendor;

pub use coverage::Coverage;
pub use form::{ApprovalForm, sign_off};
pub use product::{PolicyError, Product};
pub use scope::Scope;
