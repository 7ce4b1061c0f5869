"""Rows in several processes: torchrun --nproc-per-node 2 distributed_training.py FOLDER."""

import sys

import torch
import torch.distributed as dist

import decoupled_descent as dd

dist.init_process_group("gloo")  # "nccl" where each process has a graphics card
rank, world = dist.get_rank(), dist.get_world_size()

# Each process brings rows of its own: here every world-th row, elsewhere a file per process.
mixture = dd.mixtures.flipped_classes(dimension=300, snr=2.0, flip=0.05, labels=(0, 1))
X, y = mixture.sample(600, seed=0)
rows = dd.Rows(X[rank::world], y[rank::world], group=dist.group.WORLD)

objective = dd.Objective(dd.heads.TwoLayer(4, seed=0), "logistic")
algorithm = dd.DecoupledDescent(lr=0.1, damping=0.95)
run = dd.fit(rows, None, objective, algorithm, steps=80, checkpoint=sys.argv[1], progress=False)

if rank == 0:  # parameters and errors are the same in all processes
    error, stderr = run.train_error[run.best_step], run.train_error_stderr[run.best_step]
    print(f"{rows.n} rows in {world} processes: estimated test error {error:.3f} ± {stderr:.3f}")
    torch.save(run.to_module().state_dict(), f"{sys.argv[1]}/model.pt")
dist.barrier()  # nobody leaves before all are done
dist.destroy_process_group()
