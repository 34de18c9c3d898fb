//! Instances of deployments that another hub has.

use super::*;

#[test]
fn instances_of_a_deployment_that_names_another_hub_are_left_alone() {
    let made = effects(decide(&snapshot(Some(&write_back()), None), &LENIENT));
    let Write::Create { body, .. } = &made[0].write else {
        panic!("{made:?}")
    };
    let mut projection = body.clone();
    projection["metadata"]["uid"] = json!("u-i");
    projection["metadata"]["resourceVersion"] = json!("7");
    for write_back in [None, Some(&write_back())] {
        for projection in [None, Some(&projection)] {
            let mut s = snapshot(write_back, projection);
            s.of_other_hub = true;
            assert_eq!(decide(&s, &LENIENT), Decision::Wait);
        }
    }
}
