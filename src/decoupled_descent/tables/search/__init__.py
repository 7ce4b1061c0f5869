"""The search behind the estimators: feature maps, ridges, members, and their mixture."""
