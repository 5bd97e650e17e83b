"""What Spark's source and sink leave in the folder `spark`: claims, staged sets, transactions. What
Spark asks for belongs in `pyspark_mq`."""
