"""The archive of classes for Spark's JVM: which one a start uses, and when one is made. training.py makes it."""
