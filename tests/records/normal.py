def normal_statistics(mean, std=1.0, size=None):
    return statistics(scipy.stats.norm(float(np.mean(mean)), float(np.mean(std))))


record("normal", lambda mean, std=1.0, size=None, **k: size or np.broadcast_shapes(np.shape(mean), np.shape(std)),
       dtypes=[float32, float64],
       result=lambda mean, std=1.0, *a:
                (mean if hasattr(mean, "dtype") else std).dtype if hasattr(mean, "dtype") or hasattr(std, "dtype") else
                float32, random=normal_statistics,
       samples=[call(v([2.0] * 20000), 3.0), call(1.5, v([0.5] * 20000)), call(v([2.0] * 20000), v([3.0] * 20000)),
                call(-1.0, 2.0, [100, 300]), call(v([[2.0] * 100]), v([[1.0]] * 100))],
       errors=[error(call(0.0, -1.0, [3]), ValueError, "std")])
