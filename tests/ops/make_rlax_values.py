"""Writes rlax_values.json: results of rlax (github.com/google-deepmind/rlax), which must be installed, for test inputs.

python tests/ops/make_rlax_values.py
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import rlax

rng = np.random.default_rng(0)
N, A, Z, T = 6, 4, 11, 9


def f32(*shape, scale=1.0):
    return (scale * rng.normal(size=shape)).astype(np.float32)


def softmax(x):
    return np.asarray(jax.nn.softmax(x, -1))


def main() -> None:
    q_tm1, q_t, q_selector, r_t = f32(N, A), f32(N, A), f32(N, A), f32(N)
    a_tm1 = rng.integers(0, A, N).astype(np.int32)
    discount_t = np.array([0.9, 0.0, 0.99, 0.5, 0.99, 0.0], np.float32)
    logits_tm1, logits_t, logits_selector = f32(N, A, Z), f32(N, A, Z), f32(N, A, Z)
    atoms = np.linspace(-2, 3, Z).astype(np.float32)
    atoms_p, p = np.sort(f32(N, Z, scale=3), -1), softmax(f32(N, Z))
    rewards, discounts, values = f32(T), rng.choice([0.0, 0.97], T, p=[0.2, 0.8]).astype(np.float32), f32(T)
    selector = (jax.nn.softmax(logits_selector) * atoms).sum(-1)
    found = {
        "rlax": rlax.__version__,
        "q_learning": jax.vmap(rlax.q_learning)(q_tm1, a_tm1, r_t, discount_t, q_t),
        "double_q_learning": jax.vmap(rlax.double_q_learning)(q_tm1, a_tm1, r_t, discount_t, q_t, q_selector),
        "huber_loss": rlax.huber_loss(3 * r_t, 1.0),
        "categorical_l2_project": jax.vmap(rlax.categorical_l2_project, (0, 0, None))(atoms_p, p, atoms),
        "categorical_q_learning": jax.vmap(rlax.categorical_q_learning, (None, 0, 0, 0, 0, None, 0))(
            atoms, logits_tm1, a_tm1, r_t, discount_t, atoms, logits_t
        ),
        "categorical_double_q_learning": jax.vmap(rlax.categorical_double_q_learning, (None, 0, 0, 0, 0, None, 0, 0))(
            atoms, logits_tm1, a_tm1, r_t, discount_t, atoms, logits_t, selector
        ),
        "n_step_3": rlax.n_step_bootstrapped_returns(rewards, discounts, values, 3),
        "n_step_1": rlax.n_step_bootstrapped_returns(rewards, discounts, values, 1),
    }
    given = dict(
        q_tm1=q_tm1, q_t=q_t, q_selector=q_selector, r_t=r_t, a_tm1=a_tm1, discount_t=discount_t,
        logits_tm1=logits_tm1, logits_t=logits_t, logits_selector=logits_selector, atoms=atoms, atoms_p=atoms_p, p=p,
        rewards=rewards, discounts=discounts, values=values,
    )  # fmt: skip
    plain = {
        part: {k: v if isinstance(v, str) else jnp.asarray(v).tolist() for k, v in values.items()}
        for part, values in (("given", given), ("found", found))
    }
    Path(__file__).with_name("rlax_values.json").write_text(json.dumps(plain) + "\n")


if __name__ == "__main__":
    main()
