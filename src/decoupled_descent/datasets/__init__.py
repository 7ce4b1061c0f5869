"""Where rows come from: mixtures to sample from, MNIST, embeddings."""
