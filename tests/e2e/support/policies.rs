//! Admission policies of a plane, for tests of what holds without them.

use super::{kinds::ADMISSION_BINDING, plane::Plane, trials::with_cleanup};
use serde_json::{Value, json};

/// Awaits `body` while a policy of a plane has no binding; the binding returns whatever becomes of it.
pub(crate) async fn without_policy<T>(plane: &Plane, policy: &str, body: impl Future<Output = T>) -> T {
    let binding = plane.get(&ADMISSION_BINDING, "", policy).await;
    let spec: Value = binding.expect("the policy is installed")["spec"].take();
    plane.delete(&ADMISSION_BINDING, "", policy).await;
    let again = json!({"metadata": {"name": policy}, "spec": spec});
    with_cleanup(body, async {
        plane.create(&ADMISSION_BINDING, "", again).await;
    })
    .await
}
