//! Tests of the Namespace controller.

mod earlier_life;
mod index;
