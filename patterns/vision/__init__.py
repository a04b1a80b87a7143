"""Resize, RoI pooling and deformable attention."""
